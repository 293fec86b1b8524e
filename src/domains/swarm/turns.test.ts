import { describe, expect, it } from 'vitest'
import { createTurns } from './turns.ts'

const never = new AbortController().signal

describe('work in turns', () => {
  it('of one key is one after the other, in the order it came, and a failure holds nobody up', async () => {
    const inTurn = createTurns()
    const events: string[] = []
    const first = Promise.withResolvers<void>()
    const one = inTurn('k', never, async () => {
      events.push('one begins')
      await first.promise
      events.push('one fails')
      throw new Error('one')
    })
    const two = inTurn('k', never, async () => events.push('two'))
    const three = inTurn('k', never, async () => events.push('three'))
    await inTurn('other', never, async () => events.push('other'))
    first.resolve()
    await expect(one).rejects.toThrow('one')
    await Promise.all([two, three])
    expect(events).toEqual(['one begins', 'other', 'one fails', 'two', 'three'])
  })

  it('is left by who is cancelled, and nobody passes those before', async () => {
    const inTurn = createTurns()
    const events: string[] = []
    const first = Promise.withResolvers<void>()
    const leaving = new AbortController()
    const one = inTurn('k', never, async () => {
      await first.promise
      events.push('one')
    })
    const two = inTurn('k', leaving.signal, async () => events.push('two'))
    leaving.abort()
    await expect(two).rejects.toMatchObject({ code: 'ERR_CANCELLED' })
    const three = inTurn('k', never, async () => events.push('three'))
    first.resolve()
    await Promise.all([one, three])
    expect(events).toEqual(['one', 'three'])
    await expect(inTurn('k', leaving.signal, async () => 'alone')).resolves.toBe('alone')
  })
})
