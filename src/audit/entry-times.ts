/** Remarks entries that the clock contradicts, in the order of the log. */
type EntryTimes = Readonly<{
  /** `read` gives the whole record; it is asked for only where the time alone does not settle the matter. */
  see(at: string, seq: number, read: () => unknown): void
  reversals(): Readonly<{ count: number; firstSeq: number | undefined }>
}>

/** Times are whole milliseconds, and a call's own clock is not the clock of the day. */
const TOLERANCE_MS = 2

/**
 * An entry carries the time at which its call began, and is logged when the call is over. So a call that calls others, or
 * just takes long, stands after entries that began later; that is no disorder. What cannot be is a call that was over before
 * one that is logged ahead of it began: then the clock went back, or the times are not true.
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

/** When the last of its calls was over. Without a duration it is the moment of the entry itself. */
function endOf(at: string, record: unknown): number {
  const { duration_ms, calls } = (record ?? {}) as Timed
  const listed: readonly Timed[] = Array.isArray(calls) ? calls : []
  const ends = [endOfCall({ at, duration_ms }), ...listed.map(endOfCall)].filter(Number.isFinite)
  return ends.reduce((last, end) => Math.max(last, end), Number.NEGATIVE_INFINITY)
}

const endOfCall = ({ at, duration_ms }: Timed): number =>
  Date.parse(String(at)) + (typeof duration_ms === 'number' ? duration_ms : 0)
