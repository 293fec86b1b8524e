import type { HttpSession } from './http-sessions.ts'

export const isIdle = (session: HttpSession): boolean => session.calls.inFlight === 0 && session.responses === 0
export const onlyListens = (session: HttpSession): boolean =>
  session.calls.inFlight === 0 && session.responses === session.streams

/** Of the sessions that may end: one that was never used, or else the least recently used. */
export function firstToEnd(
  own: Iterable<HttpSession>,
  mayEnd: (session: HttpSession) => boolean,
): HttpSession | undefined {
  let first: HttpSession | undefined
  for (const session of own) {
    if (!mayEnd(session)) continue
    if (first === undefined || endsBefore(session, first)) first = session
  }
  return first
}

function endsBefore(one: HttpSession, other: HttpSession): boolean {
  return one.isUsed === other.isUsed ? one.lastUsedMs < other.lastUsedMs : other.isUsed
}

/** The first to end of the identity with the most sessions, among identities with one that may end; the oldest on a tie. */
export function firstOfLargest(
  owners: Iterable<ReadonlySet<HttpSession>>,
  mayEnd: (session: HttpSession) => boolean,
): HttpSession | undefined {
  let best: HttpSession | undefined
  let size = 0
  for (const own of owners) {
    if (own.size < size) continue
    const first = firstToEnd(own, mayEnd)
    if (first === undefined) continue
    if (own.size > size || best === undefined || endsBefore(first, best)) best = first
    size = own.size
  }
  return best
}
