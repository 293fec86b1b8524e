import { limits } from './limits.ts'

/**
 * The name of a session over standard input, as its client's program chooses it when it starts. It begins with that time, so that what is
 * remembered of the session need not be kept for ever.
 */
export const newLineSession = (nowMs: number, random: string): string => `${stampOf(nowMs)}-${random}`

const STAMP_DIGITS = 13
const STAMP = /^(\d{13})-/

/** Sorts like the time. */
export const stampOf = (ms: number): string => String(Math.max(0, Math.floor(ms))).padStart(STAMP_DIGITS, '0')

/** The beginning of the name, without what only its client knows; empty for one without a time. */
export const stampIn = (session: string): string => STAMP.exec(session)?.[1] ?? ''

const LINE_PREFIX = 'session:line-'
const LINE_CONTEXT = /^session:line-(\d{13})-/

/** Whether so much time has passed since the session started that nothing is remembered of it: it counts as untrusted. */
export function isForgottenSession(context: string, nowMs: number): boolean {
  if (!context.startsWith(LINE_PREFIX)) return false
  const stamp = LINE_CONTEXT.exec(context)?.[1]
  return stamp !== undefined && stamp < stampOf(nowMs - limits.lineSessionMs)
}
