import { channel } from 'node:diagnostics_channel'
import { limits } from '../../contract/limits.ts'

/** Published at the start of every parse, on a diagnostics channel. The program itself does not subscribe. */
export type PublishedParse = Readonly<{ text: string }>
export const manifestParses = channel('castellan:manifest-parse')

/**
 * An LRU cache of parsed texts. A version never changes its text, so the text is the key. Cached values are frozen, because
 * callers share them; what `isCacheable` refuses is parsed again.
 */
export function createParseCache<Parsed extends object>(
  parse: (text: string) => Parsed,
  isCacheable: (parsed: Parsed) => boolean,
): (text: string) => Parsed {
  const entries = new Map<string, Parsed>()
  let chars = 0

  function drop(text: string): void {
    if (entries.delete(text)) chars -= text.length
  }

  return (text) => {
    const known = entries.get(text)
    if (known === undefined && manifestParses.hasSubscribers) manifestParses.publish({ text } satisfies PublishedParse)
    const parsed = known ?? parse(text)
    if (!isCacheable(parsed)) return parsed
    drop(text)
    entries.set(text, known ?? frozen(parsed))
    chars += text.length
    while (entries.size > limits.parsedManifestsMax || chars > limits.parsedManifestCharsMax) {
      drop(entries.keys().next().value!)
    }
    return parsed
  }
}

function frozen<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value
  for (const member of value instanceof Map ? value.values() : Object.values(value)) frozen(member)
  return Object.freeze(value)
}
