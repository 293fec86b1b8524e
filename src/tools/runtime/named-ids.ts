import { limits } from '../../contract/limits.ts'

/**
 * The ids that a call names, and those that its result shows. `isWhole`: the result was read as JSON, so that it shows no other id. What
 * others wrote may be in it, and name ids too.
 */
export type NamedIds = Readonly<{ called: readonly string[]; displayed: readonly string[]; isWhole: boolean }>

const DEPTH_MAX = 32

/**
 * The ids in fields of a call and of its result. A program may have wrapped the result in other text or cut it off, so what is not
 * JSON is searched for the fields as they are written there.
 */
export function namedIds(fields: readonly string[], args: unknown, value: unknown): NamedIds {
  const called = new Set<string>()
  const displayed = new Set<string>()
  let isWhole = value === undefined
  let isTooMany = false
  const add = (ids: Set<string>, named: unknown): void => {
    for (const one of Array.isArray(named) ? named : [named]) {
      if (typeof one !== 'string' || ids.has(one)) continue
      if (ids.size < limits.carriedItemsMax) ids.add(one)
      else isTooMany = true
    }
  }
  const read = (text: string, depth: number): void => {
    const parsed = parsedJson(text)
    if (parsed === undefined) for (const named of writtenIn(text, fields)) add(displayed, named)
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
      if (!fields.includes(name)) visit(member, depth + 1)
      else {
        add(displayed, member)
        // An answer that is not a text, but data.
        if (!isOfBlocks) isWhole = true
      }
    }
  }
  const isOfBlocks = Array.isArray((value as Readonly<{ content?: unknown }> | null | undefined)?.content)
  for (const name of fields) add(called, (args as Readonly<Record<string, unknown>> | null | undefined)?.[name])
  visit(value, 0)
  return { called: [...called], displayed: [...displayed], isWhole: isWhole && !isTooMany }
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
