import type { Clock } from '../../kernel/clock.ts'
import type { Logger } from '../../kernel/logger.ts'
import type { Refusal } from './refusal.ts'

const REPEAT_MS = 10_000
const RETAINED_MAX = 1024

/** A workload that asks again and again fills the counters, not the log. */
export function createRefusalLog({ logger, clock }: Readonly<{ logger: Logger; clock: Clock }>) {
  const lastMs = new Map<string, number>()
  return (refusal: Refusal, address: string, target: string): void => {
    const key = `${address} ${target} ${refusal.reason}`
    const nowMs = clock.monotonicMs()
    if (nowMs - (lastMs.get(key) ?? Number.NEGATIVE_INFINITY) < REPEAT_MS) return
    if (lastMs.size >= RETAINED_MAX) lastMs.clear()
    lastMs.set(key, nowMs)
    logger.info('egress refused', { address, target, reason: refusal.reason })
  }
}
