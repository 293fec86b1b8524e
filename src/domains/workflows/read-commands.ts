import { checkTemplate } from './check-texts.ts'
import type { Fields } from './read-fields.ts'
import { cpuMillis, sizeBytes } from './read-values.ts'

/** The words of a command, each a template. */
export function readCommand(fields: Fields): readonly string[] | undefined {
  const input = fields.raw('command')
  if (typeof input === 'string' && input.trim() !== '') {
    fields.warn('command', 'is text and is run by a shell; write a list of words, such as ["sh", "-c", "…"]')
    checkTemplate(fields, 'command', input)
    return ['sh', '-c', input]
  }
  const list = fields.list('command')
  if (list === undefined || list.length === 0) {
    if (input === undefined || Array.isArray(input)) fields.error('command', 'must be a list of at least one word')
    return undefined
  }
  const words = list.map((word) => (typeof word === 'object' ? JSON.stringify(word) : String(word)))
  for (const word of words) checkTemplate(fields, 'command', word)
  return words
}

/** Millicores. */
export function readCpu(resources: Fields): number | undefined {
  const input = resources.raw('cpu')
  const millis = input === undefined ? undefined : cpuMillis(input)
  if (input !== undefined && millis === undefined) resources.error('cpu', 'must be millicores, such as 500')
  return millis
}

/** Bytes. */
export function readSize(resources: Fields, key: 'memory' | 'disk'): number | undefined {
  const input = resources.raw(key)
  const bytes = input === undefined ? undefined : sizeBytes(input)
  if (input !== undefined && bytes === undefined) resources.error(key, 'must be a size such as 512m, 2g or 128Mi')
  return bytes
}
