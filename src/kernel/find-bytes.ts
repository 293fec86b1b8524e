/** Below this length the runtime's search is always fast; above, it can take quadratic time. */
const SHORT_BYTES_MAX = 16

/**
 * Calls `visit` for each position of `pattern` in `bytes`, overlapping ones too, until it returns false. Linear time (Knuth,
 * Morris and Pratt), so no caller's text makes it slow.
 */
export function eachMatch(bytes: Buffer, pattern: Buffer, visit: (at: number) => boolean): void {
  if (pattern.length === 0) throw new RangeError('nothing to look for')
  if (pattern.length <= SHORT_BYTES_MAX) eachShort(bytes, pattern, visit)
  else eachLong(bytes, pattern, visit)
}

/** The first `max` positions. */
export function findBytes(bytes: Buffer, pattern: Buffer, max: number): number[] {
  const matches: number[] = []
  eachMatch(bytes, pattern, (at) => matches.push(at) < max)
  return matches
}

function eachShort(bytes: Buffer, pattern: Buffer, visit: (at: number) => boolean): void {
  for (let at = bytes.indexOf(pattern); at >= 0; at = bytes.indexOf(pattern, at + 1)) if (!visit(at)) return
}

function eachLong(bytes: Buffer, pattern: Buffer, visit: (at: number) => boolean): void {
  const fallback = fallbacksOf(pattern)
  let matched = 0
  for (let at = 0; at < bytes.length; at++) {
    while (matched > 0 && bytes[at] !== pattern[matched]) matched = fallback[matched - 1]!
    if (bytes[at] === pattern[matched]) matched++
    if (matched < pattern.length) continue
    if (!visit(at - matched + 1)) return
    matched = fallback[matched - 1]!
  }
}

/** For each prefix of `pattern`, the length of its longest proper suffix that is also a prefix. */
function fallbacksOf(pattern: Buffer): Uint32Array {
  const fallback = new Uint32Array(pattern.length)
  let matched = 0
  for (let at = 1; at < pattern.length; at++) {
    while (matched > 0 && pattern[at] !== pattern[matched]) matched = fallback[matched - 1]!
    if (pattern[at] === pattern[matched]) matched++
    fallback[at] = matched
  }
  return fallback
}
