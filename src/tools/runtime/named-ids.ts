import { limits } from '../../contract/limits.ts'

/** `isWhole`: the text of the result was read as JSON, so that it names no other id. */
export type NamedIds = Readonly<{ ids: readonly string[]; isWhole: boolean }>

const DEPTH_MAX = 32

/**
 * The ids that fields of a call and of its result name. A program may have wrapped the result in other text or cut it off, so what
 * is not JSON is searched for the fields as they are written there.
 */
export function namedIds(fields: readonly string[], args: unknown, value: unknown): NamedIds {
  const ids = new Set<string>()
  let isWhole = value === undefined
  const add = (named: unknown): void => {
    for (const one of Array.isArray(named) ? named : [named])
      if (typeof one === 'string' && ids.size < limits.carriedItemsMax) ids.add(one)
  }
  const read = (text: string, depth: number): void => {
    const parsed = parsedJson(text)
    if (parsed === undefined) for (const named of writtenIn(text, fields)) add(named)
    else {
      isWhole = true
      visit(parsed, depth)
    }
  }
  const visit = (node: unknown, depth: number): void => {
    if (depth > DEPTH_MAX) return
    if (typeof node === 'string') read(node, depth + 1)
    if (typeof node !== 'object' || node === null) return
    for (const [name, member] of Object.entries(node)) {
      if (fields.includes(name)) add(member)
      else visit(member, depth + 1)
    }
  }
  for (const name of fields) add((args as Readonly<Record<string, unknown>> | null | undefined)?.[name])
  visit(value, 0)
  return { ids: [...ids], isWhole }
}

function parsedJson(text: string): object | undefined {
  if (!/^\s*[[{]/.test(text)) return undefined
  try {
    return JSON.parse(text) as object
  } catch {
    return undefined
  }
}

function* writtenIn(text: string, fields: readonly string[]): Generator<string> {
  const names = fields.filter((name) => text.includes(name))
  if (names.length === 0) return
  const member = new RegExp(`["'](?:${names.join('|')})\\\\*["']\\s*:\\s*(\\[[^\\]]*|\\\\*"[^"\\\\]*|'[^']*)`, 'g')
  for (const [, written] of text.matchAll(member)) {
    if (!written!.startsWith('[')) yield written!.replace(/^[\\"']+/, '')
    else for (const [, one] of written!.matchAll(/["']([^"'\\,]+)/g)) yield one!
  }
}
