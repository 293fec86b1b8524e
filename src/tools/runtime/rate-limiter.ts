import { limits } from '../../contract/limits.ts'
import type { Clock } from '../../kernel/clock.ts'
import { type RateCategory, rateCategories } from './define-tool.ts'

type RateLimit = Readonly<{ perMinute: number; burst: number }>

export const defaultRateLimits: Readonly<Record<RateCategory, RateLimit>> = {
  create: { perMinute: 5, burst: 3 },
  exec: { perMinute: 60, burst: 10 },
  default: { perMinute: 120, burst: 20 },
  message: { perMinute: 300, burst: 50 },
}

type RateVerdict = Readonly<{ ok: true }> | Readonly<{ ok: false; retryAfterMs: number }>

/**
 * Token buckets, one per key and category. A bucket begins full with `burst` tokens and gains `perMinute` a minute, so
 * over any span of t minutes at most `burst + perMinute × t` calls pass.
 */
export type RateLimiter = Readonly<{
  /** Takes one token. A refusal takes none, and after `retryAfterMs` the caller passes if no other call came meanwhile. */
  take(key: string, category: RateCategory): RateVerdict
  /** Buckets in memory. */
  size(): number
}>

export type RateLimiterDeps = Readonly<{
  clock: Clock
  enabled: boolean
  limits?: Partial<Readonly<Record<RateCategory, RateLimit>>>
  bucketsMax?: number
}>

/** Times are sums of fractions; without this, a caller that waited exactly as told could be refused by a rounding error. */
const ROUNDING_MS = 0.001

const passed: RateVerdict = Object.freeze({ ok: true })

/**
 * A bucket is one number: the time at which it will be full again. Each token moves that time by the time that one token needs. A
 * full bucket holds no information, so full ones are dropped when space is needed. If every bucket in memory is in use, a new key
 * must wait: dropping a bucket would grant a second burst.
 */
export function createRateLimiter(deps: RateLimiterDeps): RateLimiter {
  if (!deps.enabled) return { take: () => passed, size: () => 0 }
  const bucketsMax = deps.bucketsMax ?? limits.rateBucketsMax
  const nowMs = deps.clock.monotonicMs
  const fullAtMs = new Map<RateCategory, Map<string, number>>(rateCategories.map((category) => [category, new Map()]))
  const pace = paceOf({ ...defaultRateLimits, ...deps.limits })
  let size = 0
  let nextFullAtMs = Number.NEGATIVE_INFINITY

  const dropFull = (now: number): void => {
    if (now < nextFullAtMs) return
    nextFullAtMs = Number.POSITIVE_INFINITY
    for (const buckets of fullAtMs.values()) {
      for (const [key, fullAt] of buckets) {
        if (fullAt > now) nextFullAtMs = Math.min(nextFullAtMs, fullAt)
        else {
          buckets.delete(key)
          size--
        }
      }
    }
  }

  return {
    take(key, category) {
      const now = nowMs()
      const { perTokenMs, debtMsMax } = pace[category]
      const buckets = fullAtMs.get(category)!
      const known = buckets.get(key)
      if (known === undefined && size >= bucketsMax) {
        dropFull(now)
        if (size >= bucketsMax) return { ok: false, retryAfterMs: Math.max(1, Math.ceil(nextFullAtMs - now)) }
      }
      const fullAt = known === undefined || known < now ? now : known
      const waitMs = fullAt - now - debtMsMax - ROUNDING_MS
      if (waitMs > 0) return { ok: false, retryAfterMs: Math.ceil(waitMs) }
      if (known === undefined) size++
      buckets.set(key, fullAt + perTokenMs)
      return passed
    },
    size: () => size,
  }
}

type Pace = Readonly<{ perTokenMs: number; debtMsMax: number }>

function paceOf(configured: Readonly<Record<RateCategory, RateLimit>>): Readonly<Record<RateCategory, Pace>> {
  const paces = rateCategories.map((category): [RateCategory, Pace] => {
    const { perMinute, burst } = configured[category]
    if (!(perMinute > 0 && Number.isFinite(perMinute) && Number.isInteger(burst) && burst >= 1)) {
      throw new RangeError(`the rate limit "${category}" needs a positive rate and a whole burst of at least 1`)
    }
    const perTokenMs = 60_000 / perMinute
    return [category, { perTokenMs, debtMsMax: (burst - 1) * perTokenMs }]
  })
  return Object.fromEntries(paces) as Record<RateCategory, Pace>
}
