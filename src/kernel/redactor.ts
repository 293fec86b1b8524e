import type { Json } from './canonical-json.ts'

/** What stands in a record in place of a secret. */
export const REDACTED = '***'
/** A shorter value is in too many texts by chance to be taken out of all of them. */
export const REDACTED_CHARS_MIN = 6

export type Redactor = Readonly<{ text(text: string): string; value(value: Json): Json }>

/**
 * Takes the values out of texts and of all texts and names in a value: as they are, escaped for JSON or for a URL, in
 * base64 wherever they begin, and each longer line of one that has several. Undefined when there is nothing to take out.
 */
export function createRedactor(secrets: readonly string[]): Redactor | undefined {
  const forms = new Set(secrets.flatMap(formsOf).filter((form) => form.length >= REDACTED_CHARS_MIN))
  if (forms.size === 0) return undefined
  const longestFirst = [...forms].toSorted((a, b) => b.length - a.length)
  const pattern = new RegExp(longestFirst.map(escaped).join('|'), 'g')
  const text = (input: string): string => (input.length < REDACTED_CHARS_MIN ? input : input.replace(pattern, REDACTED))
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

const escaped = (text: string): string => text.replaceAll(/[\\^$.*+?()[\]{}|/-]/g, '\\$&')

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

/** The characters of base64 that only this text decides, for each of the three offsets at which it can begin. */
function inBase64(text: string): readonly string[] {
  const bytes = Buffer.from(text, 'utf8')
  return [0, 1, 2].flatMap((offset) => {
    const padded = Buffer.concat([Buffer.alloc(offset), bytes])
    const from = Math.ceil((offset * 8) / 6)
    const to = Math.floor((padded.length * 8) / 6)
    return (['base64', 'base64url'] as const).map((encoding) => padded.toString(encoding).slice(from, to))
  })
}
