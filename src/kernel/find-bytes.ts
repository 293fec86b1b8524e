/** Below this the search of the runtime is quick whatever the bytes are; above, some take it the square of their length. */
const SHORT_BYTES_MAX = 16

/**
 * Tells `visit` where `wanted` begins in `bytes`, overlapping ones too, until it answers false. The time grows with the
 * sum of the lengths (Knuth, Morris and Pratt), so no text that a caller chooses makes it long.
 */
export function eachMatch(bytes: Buffer, wanted: Buffer, visit: (at: number) => boolean): void {
  if (wanted.length === 0) throw new RangeError('nothing to look for')
  if (wanted.length <= SHORT_BYTES_MAX) eachShort(bytes, wanted, visit)
  else eachLong(bytes, wanted, visit)
}

/** The first `max` places. */
export function findBytes(bytes: Buffer, wanted: Buffer, max: number): number[] {
  const matches: number[] = []
  eachMatch(bytes, wanted, (at) => matches.push(at) < max)
  return matches
}

function eachShort(bytes: Buffer, wanted: Buffer, visit: (at: number) => boolean): void {
  for (let at = bytes.indexOf(wanted); at >= 0; at = bytes.indexOf(wanted, at + 1)) if (!visit(at)) return
}

function eachLong(bytes: Buffer, wanted: Buffer, visit: (at: number) => boolean): void {
  const fallback = fallbacksOf(wanted)
  let matched = 0
  for (let at = 0; at < bytes.length; at++) {
    while (matched > 0 && bytes[at] !== wanted[matched]) matched = fallback[matched - 1]!
    if (bytes[at] === wanted[matched]) matched++
    if (matched < wanted.length) continue
    if (!visit(at - matched + 1)) return
    matched = fallback[matched - 1]!
  }
}

/** For each beginning of `wanted`, how long its longest proper end is that is a beginning too. */
function fallbacksOf(wanted: Buffer): Uint32Array {
  const fallback = new Uint32Array(wanted.length)
  let matched = 0
  for (let at = 1; at < wanted.length; at++) {
    while (matched > 0 && wanted[at] !== wanted[matched]) matched = fallback[matched - 1]!
    if (wanted[at] === wanted[matched]) matched++
    fallback[at] = matched
  }
  return fallback
}
