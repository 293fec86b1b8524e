/**
 * Texts with tool names spelled as in a caller's list. Only whole documented names are replaced; a name inside a longer word or a
 * longer dotted name is left alone.
 */
export type Spelling = Readonly<{
  /** A sentence that may contain documented names. */
  text(text: string): string
  /** A copy of the value in which every string is respelt. */
  texts<T>(value: T): T
  /** A copy of the JSON schema in which the descriptions are respelt, and nothing else. */
  schema<T>(schema: T): T
}>

type Named = Readonly<{ name: string; safeName: string }>

export function createSpelling(tools: Iterable<Named>): Spelling {
  const safe = new Map<string, string>()
  for (const { name, safeName } of tools) if (name !== safeName) safe.set(name, safeName)
  if (safe.size === 0) return { text: same, texts: same, schema: same }
  const longestFirst = [...safe.keys()].sort((a, b) => b.length - a.length)
  const names = new RegExp(`(?<![\\w.-])(?:${longestFirst.map(quoted).join('|')})(?![\\w-]|\\.\\w)`, 'g')
  const text = (input: string): string => input.replace(names, (name) => safe.get(name)!)

  const texts = (value: unknown): unknown => {
    if (typeof value === 'string') return text(value)
    if (Array.isArray(value)) return value.map(texts)
    if (typeof value !== 'object' || value === null) return value
    return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, texts(member)]))
  }
  const schema = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(schema)
    if (typeof value !== 'object' || value === null) return value
    return Object.fromEntries(
      Object.entries(value).map(([key, member]) => [
        key,
        key === 'description' && typeof member === 'string' ? text(member) : schema(member),
      ]),
    )
  }
  return { text, texts: texts as Spelling['texts'], schema: schema as Spelling['schema'] }
}

const same = <T>(value: T): T => value
const quoted = (name: string): string => name.replace(/[^\w]/g, String.raw`\$&`)
