import type { Capability } from '../../contract/security-context.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { Refusal } from './evaluate.ts'

/**
 * Each caller's use of a capability: the times of its calls in the last span, and the calls in progress. In any span of
 * `perSeconds` at most `calls` pass.
 */
type UsageCounter = Readonly<{
  check(key: string, capability: Capability): Omit<Refusal, 'context'> | undefined
  /** Counts a call that `check` allowed; the returned function is called when it has ended. */
  enter(key: string, capability: Capability): () => void
}>

type Used = { times: number[]; underWay: number; spanMs: number }
const KEYS_MAX = 10_000

export function createUsageCounter({ clock }: Readonly<{ clock: Clock }>): UsageCounter {
  const counts = new Map<string, Used>()

  function usedOf(key: string, { rateLimit }: Capability): Used {
    const spanMs = (rateLimit?.perSeconds ?? 0) * 1000
    const found = counts.get(key) ?? { times: [], underWay: 0, spanMs }
    found.spanMs = spanMs
    forgetPast(found)
    return found
  }

  function forgetPast(used: Used): void {
    const sinceMs = clock.monotonicMs() - used.spanMs
    const retained = used.times.findIndex((atMs) => atMs > sinceMs)
    used.times.splice(0, retained < 0 ? used.times.length : retained)
  }

  function makeSpace(): void {
    for (const [key, used] of counts) {
      forgetPast(used)
      if (used.times.length === 0 && used.underWay === 0) counts.delete(key)
    }
  }

  return {
    check(key, capability) {
      const { rateLimit, maxConcurrent } = capability
      if (rateLimit === undefined && maxConcurrent === undefined) return undefined
      const used = usedOf(key, capability)
      if (maxConcurrent !== undefined && used.underWay >= maxConcurrent) {
        const reason = `${used.underWay} calls are in progress, and at most ${maxConcurrent} are allowed at once; wait for one of them`
        return { violation: 'ConcurrentExecLimitExceeded', reason, allowed: [], retryAfterMs: 1_000 }
      }
      if (!counts.has(key) && counts.size >= KEYS_MAX) {
        makeSpace()
        if (counts.size >= KEYS_MAX) return tooMany('too many callers are counted', 1_000)
      }
      if (rateLimit === undefined || used.times.length < rateLimit.calls) return undefined
      const oldestMs = used.times[used.times.length - rateLimit.calls] ?? clock.monotonicMs()
      const waitMs = Math.max(1, Math.ceil(oldestMs + used.spanMs - clock.monotonicMs()))
      return tooMany(`${rateLimit.calls} calls in ${rateLimit.perSeconds} s are allowed`, waitMs)
    },
    enter(key, capability) {
      if (capability.rateLimit === undefined && capability.maxConcurrent === undefined) return () => {}
      const used = usedOf(key, capability)
      counts.set(key, used)
      if (capability.rateLimit !== undefined) used.times.push(clock.monotonicMs())
      used.underWay++
      return () => {
        used.underWay--
      }
    },
  }
}

const tooMany = (reason: string, retryAfterMs: number): Omit<Refusal, 'context'> => ({
  violation: 'RateLimitExceeded',
  reason,
  allowed: [],
  retryAfterMs,
})
