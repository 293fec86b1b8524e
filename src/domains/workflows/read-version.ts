import { exactVersion, wholeVersion } from '../agents/versions.ts'
import { type Fields, quoted } from './read-fields.ts'

/** `1.0` and `v1` are read as what they clearly mean. */
export function readVersion(fields: Fields): string {
  if (fields.raw('version') === undefined) {
    fields.warn('version', 'is absent; 1.0.0 is used')
    return '1.0.0'
  }
  const input = fields.text('version', { max: 64 })
  if (input === undefined) return '1.0.0'
  const exact = exactVersion(input)
  if (exact !== undefined) return exact
  const coerced = wholeVersion(input.trim())
  if (coerced === undefined)
    fields.error('version', `${quoted(input)} is not a semantic version; write one such as 1.0.0`)
  else fields.warn('version', `is read as ${coerced}; write that`)
  return coerced ?? '1.0.0'
}
