import { describe, expect, it } from 'vitest'
import { createBusyPoll } from './busy-poll.ts'

/** A loop whose turns are counted. Each turn takes a hundredth of a millisecond. */
function start(processors = 2) {
  let nowMs = 0
  let next: (() => void) | undefined
  const poll = createBusyPoll({
    monotonicMs: () => nowMs,
    nextTurn(callback) {
      expect(next, 'polls once in a turn').toBeUndefined()
      next = callback
    },
    processors,
  })
  /** Turns until the loop sleeps or the time is over. */
  function wait(ms: number): number {
    const endMs = nowMs + ms
    let turns = 0
    while (next !== undefined && nowMs < endMs) {
      nowMs += 0.01
      turns++
      const callback = next
      next = undefined
      callback()
    }
    nowMs = Math.max(nowMs, endMs)
    return turns
  }
  function exchange(serviceMs: number, thinkMs: number): number {
    poll.started()
    const whileServed = wait(serviceMs)
    poll.ended()
    return whileServed + wait(thinkMs)
  }
  function exchanges(count: number, serviceMs: number, thinkMs: number): number {
    let turns = 0
    for (let index = 0; index < count; index++) turns += exchange(serviceMs, thinkMs)
    return turns
  }
  return { poll, wait, exchange, exchanges }
}

describe('polling instead of sleeping', () => {
  it('begins after a series of quick exchanges, and then spans every wait', () => {
    const { exchange, exchanges } = start()
    expect(exchanges(8, 0.1, 0.05)).toBe(0)
    exchanges(8, 0.1, 0.05)
    expect(exchange(0.1, 0.05)).toBeGreaterThanOrEqual(15)
  })

  it('ends by itself when nothing more comes', () => {
    const { exchanges, wait } = start()
    exchanges(100, 0.1, 0.05)
    expect(wait(1_000)).toBeLessThanOrEqual(50)
    expect(wait(1_000)).toBe(0)
  })

  it('goes on after a single long wait', () => {
    const { exchange, exchanges } = start()
    exchanges(100, 0.1, 0.05)
    exchange(5, 0.05)
    expect(exchange(0.1, 0.05)).toBeGreaterThan(0)
  })

  it('gives up soon if waits have become long', () => {
    const { exchanges } = start()
    exchanges(100, 0.1, 0.05)
    expect(exchanges(10, 5, 5)).toBeLessThanOrEqual(4 * 51)
    expect(exchanges(10, 5, 5)).toBe(0)
  })

  it('never begins for a client that thinks or a server that is slow', () => {
    expect(start().exchanges(1_000, 0.1, 5)).toBe(0)
    expect(start().exchanges(1_000, 5, 0.1)).toBe(0)
  })

  it('ends when requests come at once', () => {
    const { poll, exchange, exchanges, wait } = start()
    exchanges(100, 0.1, 0.05)
    poll.started()
    poll.started()
    expect(wait(10)).toBeLessThanOrEqual(1)
    poll.ended()
    poll.ended()
    expect(exchange(0.1, 0.05)).toBe(0)
  })

  it('counts the parts of an answer', () => {
    const { poll, wait } = start()
    poll.started()
    for (let part = 0; part < 20; part++) {
      wait(0.1)
      poll.continued()
    }
    expect(wait(0.1)).toBeGreaterThan(0)
  })

  it('leaves the only processor to others', () => {
    expect(start(1).exchanges(100, 0.1, 0.05)).toBe(0)
  })
})
