import { Cron } from 'croner'
import type { Timing } from '../../contract/timing.ts'
import { sha256Bytes } from '../../kernel/hash.ts'

/** `newestMs` is the latest due time not after now, `older` counts those before it, `nextMs` is the next one. */
export type DueTimes = Readonly<{ newestMs: number; older: number; nextMs: number | null }>

/** The maximum number of calendar times that are counted one by one; beyond it, only that many are reported. */
const COUNT_MAX = 500

/** The first time after `afterMs`; null if there is none. */
export function nextTime(timing: Timing, afterMs: number): number | null {
  return timing.type === 'interval' ? afterMs + timing.everyMs : nextCron(cronOf(timing), afterMs)
}

/**
 * The times that have passed since a schedule was due at `dueMs`. An interval keeps its rhythm however late it is
 * evaluated. A later time counts as passed only after the whole jitter, because its own delay may be as long.
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

/** How many calendar times are examined for the shortest gap: more than an hour of every minute. */
const GAPS_MAX = 64

/** The shortest gap between two of the next times. */
export function shortestGapMs(timing: Timing, afterMs: number): number {
  if (timing.type === 'interval') return timing.everyMs
  const times = cronOf(timing).nextRuns(GAPS_MAX, new Date(afterMs)).map(Number)
  return Math.min(Number.POSITIVE_INFINITY, ...times.slice(1).map((time, index) => time - times[index]!))
}

/** When the time `dueMs` fires. Its delay is computed from the subject and the time, so that all servers agree. */
export function firingTime({ jitterMs }: Timing, subjectId: string, dueMs: number): number {
  if (jitterMs === 0) return dueMs
  const part = sha256Bytes(`${subjectId} ${dueMs}`).readUInt32BE() / 2 ** 32
  return dueMs + Math.floor(part * (jitterMs + 1))
}

const cronOf = ({ cron, timezone }: Extract<Timing, { type: 'cron' }>): Cron =>
  new Cron(cron, { paused: true, timezone })

const nextCron = (cron: Cron, afterMs: number): number | null => cron.nextRun(new Date(afterMs))?.getTime() ?? null

/** The library counts whole seconds, and returns times before the second that it is passed. */
const newestCron = (cron: Cron, nowMs: number): number => cron.previousRuns(1, new Date(nowMs + 1_000))[0]!.getTime()
