/** Reports entries that contradict the clock, in the order of the log. */
type EntryTimes = Readonly<{
  /** `read` returns the whole record; it is called only if the time alone does not decide. */
  see(at: string, seq: number, read: () => unknown): void
  reversals(): Readonly<{ count: number; firstSeq: number | undefined }>
}>

/** Times are whole milliseconds, and the duration of a call is measured by another clock. */
const TOLERANCE_MS = 2

/**
 * An entry carries the time at which its call began, and is logged when the call ends. So a call that calls others, or takes
 * long, follows entries that began later; that is in order. But a call cannot have ended before an entry ahead of it began: then
 * the clock was set back, or the times are false.
 */
export function createEntryTimes(): EntryTimes {
  let latest = ''
  let count = 0
  let firstSeq: number | undefined
  return {
    see(at, seq, read) {
      if (at >= latest) {
        latest = at
        return
      }
      if (endOf(at, read()) + TOLERANCE_MS >= Date.parse(latest)) return
      count++
      firstSeq ??= seq
      latest = at
    },
    reversals: () => ({ count, firstSeq }),
  }
}

type Timed = Readonly<{ at?: unknown; duration_ms?: unknown; calls?: unknown }>

/** When the last of its calls ended; without a duration, the time of the entry itself. */
function endOf(at: string, record: unknown): number {
  const { duration_ms, calls } = (record ?? {}) as Timed
  const listed: readonly Timed[] = Array.isArray(calls) ? calls : []
  const ends = [endOfCall({ at, duration_ms }), ...listed.map(endOfCall)].filter(Number.isFinite)
  return ends.reduce((last, end) => Math.max(last, end), Number.NEGATIVE_INFINITY)
}

const endOfCall = ({ at, duration_ms }: Timed): number =>
  Date.parse(String(at)) + (typeof duration_ms === 'number' ? duration_ms : 0)
