import { describe, expect, it } from 'vitest'
import { createSteadyClock } from './steady-clock.ts'

function machine() {
  const time = { wallMs: 1_000_000, spanMs: 0 }
  const clock = createSteadyClock({ nowMs: () => time.wallMs, monotonicMs: () => time.spanMs })
  const pass = (ms: number) => {
    time.wallMs += ms
    time.spanMs += ms
  }
  return { time, clock, pass }
}

describe('a steady clock', () => {
  it('is that of the machine while that goes on', () => {
    const { clock, pass } = machine()
    for (const ms of [0, 1, 5_000]) {
      pass(ms)
      expect(clock.aheadMs()).toBe(0)
    }
    expect(clock.nowMs()).toBe(1_005_001)
  })

  it('does not go back with it, goes on at half its pace, and follows it again', () => {
    const { time, clock, pass } = machine()
    clock.nowMs()
    time.wallMs -= 10_000
    expect(clock.nowMs()).toBe(1_000_000)
    expect(clock.aheadMs()).toBe(10_000)
    pass(4_000)
    expect(clock.nowMs()).toBe(1_002_000)
    expect(clock.aheadMs()).toBe(8_000)
    time.wallMs -= 1_000
    expect(clock.nowMs()).toBe(1_002_000)
    pass(18_000)
    expect(clock.nowMs()).toBe(1_011_000)
    expect(clock.aheadMs()).toBe(0)
    pass(7)
    expect(clock.nowMs()).toBe(1_011_007)
  })

  it('begins no earlier than it is told', () => {
    const { clock, pass } = machine()
    clock.raise(1_060_000)
    expect(clock.nowMs()).toBe(1_060_000)
    clock.raise(1_000)
    pass(10)
    expect(clock.nowMs()).toBe(1_060_005)
    pass(200_000)
    expect(clock.nowMs()).toBe(1_200_010)
  })

  it('goes back only when it is told to', () => {
    const { clock, pass } = machine()
    clock.raise(9_000_000)
    clock.nowMs()
    clock.accept()
    expect(clock.nowMs()).toBe(1_000_000)
    pass(3)
    expect([clock.nowMs(), clock.aheadMs()]).toEqual([1_000_003, 0])
  })
})
