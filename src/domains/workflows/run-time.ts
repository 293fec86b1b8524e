import type { Json } from '../../kernel/canonical-json.ts'
import type { Visit } from './run-ports.ts'

/** What is left of the time of a state, and of `ownMs` where its part has a limit of its own; null where nothing limits it. */
export type TimeLeft = (ownMs?: number | null) => number | null

/**
 * The time of a state is one for all that it does: its attempts, their judges and its retries. It begins once and goes on
 * through restarts. Only the parts look at it, whose ends are recorded, so that no decision depends on the clock.
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
