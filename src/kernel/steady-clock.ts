import type { Clock } from './clock.ts'

/**
 * A clock that never goes back, however the machine's clock is set: what has expired stays expired. While the machine's clock is
 * behind, time continues at half speed, so that it catches up and timers still fire.
 */
export type SteadyClock = Clock &
  Readonly<{
    /** From now on it is at least this late. */
    raise(ms: number): void
    /** How far the machine's clock is behind; 0 if it is not. */
    aheadMs(): number
    /** Accepts the machine's time, even if that means going back. */
    accept(): void
  }>

const PACE = 0.5

export function createSteadyClock(source: Clock): SteadyClock {
  let lastMs = Number.NEGATIVE_INFINITY
  /** Where time continued by itself, and since when; undefined while the machine's clock is used. */
  let own: { fromMs: number; sinceMs: number } | undefined

  function nowMs(): number {
    const wallMs = source.nowMs()
    if (own === undefined && wallMs >= lastMs) {
      lastMs = wallMs
      return wallMs
    }
    const spanMs = source.monotonicMs()
    own ??= { fromMs: lastMs, sinceMs: spanMs }
    const ownMs = Math.floor(own.fromMs + (spanMs - own.sinceMs) * PACE)
    if (wallMs >= ownMs) own = undefined
    lastMs = Math.max(lastMs, ownMs, wallMs)
    return lastMs
  }

  return {
    nowMs,
    monotonicMs: source.monotonicMs,
    raise(ms) {
      if (ms <= nowMs()) return
      lastMs = ms
      own = undefined
    },
    aheadMs: () => Math.max(0, nowMs() - source.nowMs()),
    accept() {
      lastMs = source.nowMs()
      own = undefined
    },
  }
}
