import type { Json } from '../../kernel/canonical-json.ts'
import type { Visit } from './run-ports.ts'

/** The remaining time of a state, and of `ownMs` if a part has a limit of its own; null if there is no limit. */
export type TimeLeft = (ownMs?: number | null) => number | null

/**
 * The time-out of a state covers all its work: attempts, judges and retries. It starts once and continues through restarts. Only
 * steps whose results are recorded read the clock, so no decision depends on it during a replay.
 */
export async function openTime({ state, steps, deps, key }: Visit): Promise<TimeLeft> {
  const { timeoutMs } = state
  if (timeoutMs === null) return (ownMs = null) => ownMs
  const { until_ms } = await steps.once<{ until_ms: number } & Json>(key('time'), async () => ({
    result: { until_ms: deps.clock.nowMs() + timeoutMs },
  }))
  return (ownMs = null) => {
    const leftMs = Math.max(1, until_ms - deps.clock.nowMs())
    return ownMs === null ? leftMs : Math.min(leftMs, ownMs)
  }
}
