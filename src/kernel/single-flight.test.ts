import { describe, expect, it } from 'vitest'
import { createSingleFlight } from './single-flight.ts'

describe('work of one key', () => {
  it('is shared by all who ask while it is in progress, and done anew afterwards', async () => {
    const flight = createSingleFlight<number>()
    let started = 0
    const gate = Promise.withResolvers<void>()
    const work = async (): Promise<number> => {
      const mine = ++started
      await gate.promise
      return mine
    }
    const both = Promise.all([flight.run('a', work), flight.run('a', work), flight.run('b', work)])
    expect(flight.pending('a')).toBeDefined()
    gate.resolve()
    expect(await both).toEqual([1, 1, 2])
    expect(flight.pending('a')).toBeUndefined()
    expect(await flight.run('a', work)).toBe(3)
  })

  it('fails for all who share it, and is tried again by the next', async () => {
    const flight = createSingleFlight<string>()
    const failing = (): Promise<string> => Promise.reject(new Error('no'))
    const outcomes = await Promise.allSettled([flight.run('a', failing), flight.run('a', failing)])
    expect(outcomes.map(({ status }) => status)).toEqual(['rejected', 'rejected'])
    flight.run('a', failing).catch(() => {})
    await flight.settled()
    expect(flight.pending('a')).toBeUndefined()
    expect(await flight.run('a', async () => 'yes')).toBe('yes')
  })

  it('starts anew once it is forgotten, and its end does not end the new one', async () => {
    const flight = createSingleFlight<string>()
    const first = Promise.withResolvers<string>()
    const second = Promise.withResolvers<string>()
    const one = flight.run('a', () => first.promise)
    flight.forgetAll()
    const other = flight.run('a', () => second.promise)
    first.resolve('first')
    expect(await one).toBe('first')
    expect(flight.pending('a')).toBe(other)
    second.resolve('second')
    expect(await other).toBe('second')
  })
})
