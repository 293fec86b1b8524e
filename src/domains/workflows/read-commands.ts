import { checkTemplate } from './check-texts.ts'
import type { Fields } from './read-fields.ts'
import { cpuMillis, sizeBytes } from './read-values.ts'

/** The words of a command, each a template. */
export function readCommand(fields: Fields): readonly string[] | undefined {
  const given = fields.raw('command')
  if (typeof given === 'string' && given.trim() !== '') {
    fields.warn('command', 'is text and is run by a shell; write a list of words, such as ["sh", "-c", "…"]')
    checkTemplate(fields, 'command', given)
    return ['sh', '-c', given]
  }
  const list = fields.list('command')
  if (list === undefined || list.length === 0) {
    if (given === undefined || Array.isArray(given)) fields.error('command', 'must be a list of at least one word')
    return undefined
  }
  const words = list.map((word) => (typeof word === 'object' ? JSON.stringify(word) : String(word)))
  for (const word of words) checkTemplate(fields, 'command', word)
  return words
}

/** Millicores. */
export function readCpu(resources: Fields): number | undefined {
  const given = resources.raw('cpu')
  const millis = given === undefined ? undefined : cpuMillis(given)
  if (given !== undefined && millis === undefined) resources.error('cpu', 'must be millicores, such as 500')
  return millis
}

/** Bytes. */
export function readSize(resources: Fields, key: 'memory' | 'disk'): number | undefined {
  const given = resources.raw(key)
  const bytes = given === undefined ? undefined : sizeBytes(given)
  if (given !== undefined && bytes === undefined) resources.error(key, 'must be a size such as 512m, 2g or 128Mi')
  return bytes
}
