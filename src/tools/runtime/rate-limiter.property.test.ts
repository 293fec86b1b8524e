import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { limits } from '../../contract/limits.ts'
import { rateCategories } from './define-tool.ts'
import { createRateLimiter, defaultRateLimits, type RateLimiterDeps } from './rate-limiter.ts'

function setUp(deps: Partial<RateLimiterDeps> = {}) {
  let elapsedMs = 0
  const limiter = createRateLimiter({ clock: { nowMs: () => 0, monotonicMs: () => elapsedMs }, enabled: true, ...deps })
  return {
    limiter,
    at: (ms: number) => {
      elapsedMs = ms
    },
    wait: (ms: number) => {
      elapsedMs += ms
      return elapsedMs
    },
  }
}

describe('the rate limiter', () => {
  it.each(rateCategories)('lets the burst of "%s" through at once, then one per interval', (category) => {
    const { limiter, wait } = setUp()
    const { perMinute, burst } = defaultRateLimits[category]
    for (let count = 0; count < burst; count++) expect(limiter.take('ann', category)).toEqual({ ok: true })
    expect(limiter.take('ann', category)).toEqual({ ok: false, retryAfterMs: 60_000 / perMinute })
    expect(limiter.take('bob', category)).toEqual({ ok: true })
    wait(60_000 / perMinute)
    expect(limiter.take('ann', category)).toEqual({ ok: true })
    expect(limiter.take('ann', category).ok).toBe(false)
  })

  it('keeps the categories of one caller apart', () => {
    const { limiter } = setUp()
    for (let count = 0; count < 4; count++) limiter.take('ann', 'create')
    expect(limiter.take('ann', 'create').ok).toBe(false)
    expect(limiter.take('ann', 'default').ok).toBe(true)
  })

  it('never lets more than burst + rate × time through, in any window, and always lets an idle caller in', () => {
    const limit = fc.record({ perMinute: fc.integer({ min: 1, max: 1_000 }), burst: fc.integer({ min: 1, max: 20 }) })
    const gap = fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 500 }), fc.integer({ min: 0, max: 60_000 }))
    fc.assert(
      fc.property(limit, fc.array(gap, { minLength: 1, maxLength: 120 }), (input, gaps) => {
        const { limiter, wait } = setUp({ limits: { exec: input } })
        const passedAt: number[] = []
        let refused = 0
        for (const gapMs of gaps) {
          const now = wait(gapMs)
          if (limiter.take('ann', 'exec').ok) passedAt.push(now)
          else refused++
        }
        for (let from = 0; from < passedAt.length; from++) {
          for (let to = from; to < passedAt.length; to++) {
            const spanMinutes = (passedAt[to]! - passedAt[from]!) / 60_000
            expect(to - from + 1).toBeLessThanOrEqual(input.burst + input.perMinute * spanMinutes + 1e-4)
          }
        }
        if (gaps.length <= input.burst) expect(refused).toBe(0)
      }),
    )
  })

  it('says the exact time to wait, to the millisecond', () => {
    const limit = fc.record({ perMinute: fc.integer({ min: 1, max: 1_000 }), burst: fc.integer({ min: 1, max: 20 }) })
    fc.assert(
      fc.property(limit, fc.array(fc.integer({ min: 0, max: 2_000 }), { maxLength: 60 }), (input, gaps) => {
        const { limiter, wait } = setUp({ limits: { exec: input } })
        for (const gapMs of gaps) {
          wait(gapMs)
          const verdict = limiter.take('ann', 'exec')
          if (verdict.ok) continue
          expect(Number.isInteger(verdict.retryAfterMs) && verdict.retryAfterMs > 0).toBe(true)
          wait(verdict.retryAfterMs - 1)
          expect(limiter.take('ann', 'exec').ok).toBe(false)
          wait(1)
          expect(limiter.take('ann', 'exec').ok).toBe(true)
        }
      }),
    )
  })

  it('holds a bounded number of buckets and drops the full ones for new callers', () => {
    const { limiter, at } = setUp()
    for (let caller = 0; caller < limits.rateBucketsMax; caller++) limiter.take(`caller-${caller}`, 'default')
    expect(limiter.size()).toBe(limits.rateBucketsMax)
    expect(limiter.take('late', 'default')).toEqual({ ok: false, retryAfterMs: 500 })
    expect(limiter.take('caller-0', 'default').ok).toBe(true)
    at(500)
    expect(limiter.take('late', 'default').ok).toBe(true)
    expect(limiter.size()).toBe(2)
  })

  it('gives nobody a second burst by making it forget', () => {
    const { limiter } = setUp({ bucketsMax: 4 })
    for (let count = 0; count < 3; count++) limiter.take('ann', 'create')
    for (let caller = 0; caller < 100; caller++) limiter.take(`other-${caller}`, 'default')
    expect(limiter.take('ann', 'create').ok).toBe(false)
    expect(limiter.size()).toBe(4)
  })

  it('can be switched off and configured, and refuses a limit that makes no sense', () => {
    const off = setUp({ enabled: false }).limiter
    for (let count = 0; count < 1_000; count++) expect(off.take('ann', 'create').ok).toBe(true)
    const { limiter } = setUp({ limits: { create: { perMinute: 1, burst: 1 } } })
    expect([limiter.take('ann', 'create').ok, limiter.take('ann', 'create').ok]).toEqual([true, false])
    for (const bad of [
      { perMinute: 0, burst: 1 },
      { perMinute: 1, burst: 0 },
      { perMinute: Number.NaN, burst: 1 },
      { perMinute: 1, burst: 1.5 },
    ]) {
      expect(() => setUp({ limits: { exec: bad } })).toThrow('exec')
    }
  })
})
