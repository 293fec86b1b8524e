/**
 * Reads a call that was written into the tool name: `task_get {"task_id":"T-1"}` or `task_get(task_id="T-1", limit=5)`. Plain
 * names have no arguments. Anything ambiguous is reported as `unreadable`.
 */
export type GluedCall = Readonly<{ name: string; args?: Readonly<Record<string, unknown>>; unreadable?: boolean }>

const namePart = /^\s*([^\s({[\]})"'`=,;]+)\s*/u

export function splitGluedCall(text: string): GluedCall {
  const unquoted = text.trim().replace(/^(["'`])(.*)\1$/su, '$2')
  const match = namePart.exec(unquoted)
  if (match === null) return { name: unquoted, unreadable: true }
  const name = match[1]!.replace(/:$/u, '')
  const rest = unquoted
    .slice(match[0].length)
    .replace(/^[:=]\s*/u, '')
    .trim()
  if (rest === '') return { name }
  const inner = rest.startsWith('(') && rest.endsWith(')') ? rest.slice(1, -1).trim() : rest
  if (inner === '') return { name, args: {} }
  const args = inner.startsWith('{') ? parseObject(inner) : rest.startsWith('(') ? parseKeywords(inner) : undefined
  return args === undefined ? { name, unreadable: true } : { name, args }
}

export function parseObject(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return isArguments(value) ? value : undefined
  } catch {
    return undefined
  }
}

export const isArguments = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const keyword = /^\s*([\p{L}_][\p{L}\p{N}_-]*)\s*[=:]\s*/u
const words: ReadonlyMap<string, unknown> = new Map<string, unknown>([
  ['true', true],
  ['True', true],
  ['false', false],
  ['False', false],
  ['null', null],
  ['None', null],
])

/** `a="x", b=5, c=[1, 2]`; a value without a key, a repeated key or an open quote makes the whole text unreadable. */
function parseKeywords(text: string): Readonly<Record<string, unknown>> | undefined {
  const found = new Map<string, unknown>()
  let rest = text
  while (rest.trim() !== '') {
    const key = keyword.exec(rest)
    if (key === null || found.has(key[1]!)) return undefined
    const value = takeValue(rest.slice(key[0].length))
    if (value === undefined) return undefined
    found.set(key[1]!, value.value)
    const after = value.rest.trimStart()
    if (after !== '' && !after.startsWith(',')) return undefined
    rest = after.slice(1)
  }
  return Object.fromEntries(found)
}

function takeValue(text: string): { value: unknown; rest: string } | undefined {
  const end = valueEnd(text)
  if (end === undefined) return undefined
  const source = text.slice(0, end).trim()
  const rest = text.slice(end)
  if (source === '') return undefined
  if (words.has(source)) return { value: words.get(source), rest }
  try {
    return { value: JSON.parse(source) as unknown, rest }
  } catch {
    const single = /^'((?:[^'\\]|\\['\\])*)'$/su.exec(source)
    if (single !== null) return { value: single[1]!.replace(/\\(['\\])/g, '$1'), rest }
    return /^[\p{L}\p{N}_.:/@+-]+$/u.test(source) ? { value: source, rest } : undefined
  }
}

/** Where a value ends: at the first comma outside quotes and brackets. Undefined when a quote or bracket stays open. */
function valueEnd(text: string): number | undefined {
  let depth = 0
  let quote: string | undefined
  for (let index = 0; index < text.length; index++) {
    const character = text[index]!
    if (quote !== undefined) {
      if (character === '\\') index++
      else if (character === quote) quote = undefined
      continue
    }
    if (character === '"' || character === "'") quote = character
    else if (character === '[' || character === '{') depth++
    else if (character === ']' || character === '}') depth--
    else if (character === ',' && depth === 0) return index
  }
  return quote === undefined && depth === 0 ? text.length : undefined
}
