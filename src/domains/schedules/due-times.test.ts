import fc from 'fast-check'
import { describe, expect, it, test } from 'vitest'
import type { Timing } from '../../contract/timing.ts'
import { dueTimes, firingTime, nextTime } from './due-times.ts'

const firing = { enabled: true, overlap: 'skip', missed: 'once', input: null, jitterMs: 0 } as const
const every = (everyMs: number): Timing => ({ type: 'interval', everyMs, ...firing })
const cron = (text: string, timezone = 'UTC'): Timing => ({ type: 'cron', cron: text, timezone, ...firing })
const at = (text: string): number => Date.parse(text)

describe('cron', () => {
  it('follows the clock of its time zone over the change to summer time', () => {
    const rome = cron('30 6 * * *', 'Europe/Rome')
    const first = nextTime(rome, at('2026-03-28T00:00:00Z'))!
    expect(new Date(first).toISOString()).toBe('2026-03-28T05:30:00.000Z')
    expect(new Date(nextTime(rome, first)!).toISOString()).toBe('2026-03-29T04:30:00.000Z')
  })

  it('counts what has passed, and knows the newest of it', () => {
    const due = dueTimes(cron('0 * * * *'), at('2026-01-01T01:00:00Z'), at('2026-01-01T04:59:59Z'))
    expect(due).toEqual({ newestMs: at('2026-01-01T04:00:00Z'), older: 3, nextMs: at('2026-01-01T05:00:00Z') })
  })

  it('does not count years of seconds one by one', () => {
    const nowMs = at('2026-01-01T00:00:00.250Z')
    const due = dueTimes(cron('* * * * * *'), at('2016-01-01T00:00:00Z'), nowMs)
    expect(due).toEqual({ newestMs: nowMs - 250, older: 501, nextMs: nowMs + 750 })
  })

  it('may be over for ever', () => {
    expect(nextTime(cron('0 0 30 2 *'), at('2026-01-01T00:00:00Z'))).toBeNull()
  })
})

test('whatever passes, the next time is to come, the newest is not, and an interval keeps its beat', () => {
  const hour = 3_600_000
  const timings = fc.oneof(
    fc.integer({ min: 1, max: 100 * hour }).map(every),
    fc.constantFrom(cron('*/5 * * * *'), cron('0 6 * * 1-5', 'Europe/Rome'), cron('15 3 1 * *')),
  )
  fc.assert(
    fc.property(timings, fc.integer({ min: 0, max: 1_000 * hour }), (timing, lateMs) => {
      const dueMs = nextTime(timing, at('2026-02-03T04:05:06Z'))!
      const nowMs = dueMs + lateMs
      const { newestMs, older, nextMs } = dueTimes(timing, dueMs, nowMs)
      expect(newestMs).toBeLessThanOrEqual(nowMs)
      expect(nextMs!).toBeGreaterThan(nowMs)
      expect(nextMs).toBe(nextTime(timing, newestMs))
      expect(older === 0).toBe(newestMs === dueMs)
      if (timing.type === 'interval') expect(newestMs).toBe(dueMs + older * timing.everyMs)
    }),
    { numRuns: 60 },
  )
})

test('jitter puts each time off by a part of it that all servers agree on, and no time is lost to it', () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 86_400_000 }), fc.uuid(), fc.nat(50), (jitterMs, subject, steps) => {
      const timing: Timing = { ...every(60_000), jitterMs }
      let dueMs = at('2026-02-03T04:05:00Z')
      for (let step = 0; step <= steps; step++) {
        const fireMs = firingTime(timing, subject, dueMs)
        expect(fireMs).toBe(firingTime(timing, subject, dueMs))
        expect(fireMs - dueMs).toBeGreaterThanOrEqual(0)
        expect(fireMs - dueMs).toBeLessThanOrEqual(jitterMs)
        // Looked at when it fires, it is the newest there is, however long the jitter is.
        expect(dueTimes(timing, dueMs, fireMs)).toEqual({ newestMs: dueMs, older: 0, nextMs: dueMs + 60_000 })
        dueMs += 60_000
      }
    }),
    { numRuns: 60 },
  )
})
