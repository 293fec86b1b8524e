import type { Json } from './canonical-json.ts'

/** What stands in a record in place of a secret. */
export const REDACTED = '***'
/** A shorter value occurs in too many texts by chance to be redacted everywhere. */
export const REDACTED_CHARS_MIN = 6

export type Redactor = Readonly<{ text(text: string): string; value(value: Json): Json }>

/**
 * Redacts values in texts and in all strings and names of a value: as they are, escaped for JSON or for a URL, in base64 at any
 * offset, and each longer line of a multi-line one. Undefined if there is nothing to redact.
 */
export function createRedactor(secrets: readonly string[]): Redactor | undefined {
  const forms = new Set(secrets.flatMap(formsOf).filter((form) => form.length >= REDACTED_CHARS_MIN))
  if (forms.size === 0) return undefined
  const text = textWithout([...forms].toSorted((a, b) => b.length - a.length))
  const value = (input: Json): Json => {
    if (typeof input === 'string') return text(input)
    if (typeof input !== 'object' || input === null) return input
    if (Array.isArray(input)) return input.map((member: Json) => value(member))
    return Object.fromEntries(
      Object.entries(input).flatMap(([name, member]) => (member === undefined ? [] : [[text(name), value(member)]])),
    )
  }
  return { text, value }
}

const SLOTS = 1 << 16
const slotOf = (text: string, at: number): number =>
  (Math.imul(text.charCodeAt(at), 0x9e3779b1) ^
    Math.imul(text.charCodeAt(at + 1), 0x85ebca6b) ^
    Math.imul(text.charCodeAt(at + 2), 0xc2b2ae35)) >>>
  16

/**
 * All forms in one pass over a text, whatever their number. A table of the first three characters rules out nearly every position; then
 * the forms with the same beginning are compared, the longest first.
 */
function textWithout(longestFirst: readonly string[]): (input: string) => string {
  const starts = new Uint8Array(SLOTS)
  const byBeginning = new Map<string, string[]>()
  for (const form of longestFirst) {
    starts[slotOf(form, 0)] = 1
    const beginning = form.slice(0, REDACTED_CHARS_MIN)
    const known = byBeginning.get(beginning)
    if (known === undefined) byBeginning.set(beginning, [form])
    else known.push(form)
  }
  const formAt = (input: string, at: number): string | undefined =>
    byBeginning.get(input.slice(at, at + REDACTED_CHARS_MIN))?.find((form) => input.startsWith(form, at))
  return (input) => {
    const last = input.length - REDACTED_CHARS_MIN
    let from = 0
    let clean = ''
    for (let at = 0; at <= last; at++) {
      const found = starts[slotOf(input, at)] === 1 ? formAt(input, at) : undefined
      if (found === undefined) continue
      clean += input.slice(from, at) + REDACTED
      from = at + found.length
      at = from - 1
    }
    return from === 0 ? input : clean + input.slice(from)
  }
}

function formsOf(secret: string): readonly string[] {
  const whole = [secret, secret.trim()]
  const lines = secret.split(/\r?\n/).filter((line) => line.trim().length >= 2 * REDACTED_CHARS_MIN)
  return [...whole, ...lines].flatMap((one) => [
    one,
    jsonText(one),
    jsonText(jsonText(one)),
    encodeURIComponent(one.toWellFormed()),
    ...inBase64(one),
  ])
}

const jsonText = (text: string): string => JSON.stringify(text).slice(1, -1)

/** The base64 characters that this text alone determines, for each of the three offsets. */
function inBase64(text: string): readonly string[] {
  const bytes = Buffer.from(text, 'utf8')
  return [0, 1, 2].flatMap((offset) => {
    const padded = Buffer.concat([Buffer.alloc(offset), bytes])
    const from = Math.ceil((offset * 8) / 6)
    const to = Math.floor((padded.length * 8) / 6)
    return (['base64', 'base64url'] as const).map((encoding) => padded.toString(encoding).slice(from, to))
  })
}
