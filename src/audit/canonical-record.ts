import { canonicalJson } from '../kernel/canonical-json.ts'

/**
 * Whether `text` is the RFC 8785 form of `value`, where `value` is `JSON.parse(text)`. The engine's serialiser produces that form
 * except for the order of keys and lone surrogates, and is much faster than building it: if it returns the same text and all keys
 * are in order, the text is canonical. Cases that this cannot decide (escaped surrogates, keys that look like array indexes) go
 * to the full algorithm.
 */
export function isCanonicalText(text: string, value: unknown): boolean {
  try {
    if (JSON.stringify(value) === text && !text.includes('\\ud') && hasSortedKeys(value)) return true
    return canonicalJson(value) === text
  } catch {
    // No canonical form, or nested too deeply to have been written by us.
    return false
  }
}

function hasSortedKeys(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return true
  if (Array.isArray(value)) {
    for (const element of value) if (!hasSortedKeys(element)) return false
    return true
  }
  const record = value as Record<string, unknown>
  let previous: string | undefined
  for (const key in record) {
    if (previous !== undefined && previous >= key) return false
    previous = key
    const member = record[key]
    if (typeof member === 'object' && member !== null && !hasSortedKeys(member)) return false
  }
  return true
}
