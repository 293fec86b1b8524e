import { Cron } from 'croner'
import type { Timing } from '../../contract/timing.ts'
import { sha256Bytes } from '../../kernel/hash.ts'

/** `newestMs` is the last due time not after now, `older` counts those before it, `nextMs` is the one to come. */
export type DueTimes = Readonly<{ newestMs: number; older: number; nextMs: number | null }>

/** Times of the calendar that are counted one by one; of more it is only known that there were so many. */
const COUNT_MAX = 500

/** The first time after `afterMs`; null when there is none any more. */
export function nextTime(timing: Timing, afterMs: number): number | null {
  return timing.type === 'interval' ? afterMs + timing.everyMs : nextCron(cronOf(timing), afterMs)
}

/**
 * What has come since a schedule was due at `dueMs`. An interval keeps its beat however late it is looked at. A later time
 * has come once the whole jitter is over, for until then its own part of it may not be.
 */
export function dueTimes(timing: Timing, dueMs: number, atMs: number): DueTimes {
  const nowMs = Math.max(dueMs, atMs - timing.jitterMs)
  if (timing.type === 'interval') {
    const older = Math.max(0, Math.floor((nowMs - dueMs) / timing.everyMs))
    const newestMs = dueMs + older * timing.everyMs
    return { newestMs, older, nextMs: newestMs + timing.everyMs }
  }
  const cron = cronOf(timing)
  let newestMs = dueMs
  let older = 0
  let nextMs = nextCron(cron, dueMs)
  for (; nextMs !== null && nextMs <= nowMs; older++) {
    newestMs = older < COUNT_MAX ? nextMs : newestCron(cron, nowMs)
    nextMs = nextCron(cron, newestMs)
  }
  return { newestMs, older, nextMs }
}

/** How many times of a calendar are looked at for the shortest span between two: more than an hour of every minute. */
const GAPS_MAX = 64

/** The shortest span between two times of the timing, of those that come next. */
export function shortestGapMs(timing: Timing, afterMs: number): number {
  if (timing.type === 'interval') return timing.everyMs
  const times = cronOf(timing).nextRuns(GAPS_MAX, new Date(afterMs)).map(Number)
  return Math.min(Number.POSITIVE_INFINITY, ...times.slice(1).map((time, index) => time - times[index]!))
}

/** When the time `dueMs` fires. The part of the jitter follows from the subject and the time, so that all servers agree. */
export function firingTime({ jitterMs }: Timing, subjectId: string, dueMs: number): number {
  if (jitterMs === 0) return dueMs
  const part = sha256Bytes(`${subjectId} ${dueMs}`).readUInt32BE() / 2 ** 32
  return dueMs + Math.floor(part * (jitterMs + 1))
}

const cronOf = ({ cron, timezone }: Extract<Timing, { type: 'cron' }>): Cron =>
  new Cron(cron, { paused: true, timezone })

const nextCron = (cron: Cron, afterMs: number): number | null => cron.nextRun(new Date(afterMs))?.getTime() ?? null

/** The library counts whole seconds, and answers what lies before the one it is given. */
const newestCron = (cron: Cron, nowMs: number): number => cron.previousRuns(1, new Date(nowMs + 1_000))[0]!.getTime()
