import { describe, expect, it } from 'vitest'
import { createKeyedMutex } from './keyed-mutex.ts'

describe('a keyed mutex', () => {
  it('runs work of one key one after the other, in the order it came, and a failure holds nobody up', async () => {
    const { withLock } = createKeyedMutex()
    const events: string[] = []
    const first = Promise.withResolvers<void>()
    const one = withLock('k', async () => {
      events.push('one begins')
      await first.promise
      events.push('one fails')
      throw new Error('one')
    })
    const two = withLock('k', async () => events.push('two'))
    const three = withLock('k', async () => events.push('three'))
    await withLock('other', async () => events.push('other'))
    first.resolve()
    await expect(one).rejects.toThrow('one')
    await Promise.all([two, three])
    expect(events).toEqual(['one begins', 'other', 'one fails', 'two', 'three'])
  })

  it('is left by work that is aborted, and later work does not overtake', async () => {
    const { withLock } = createKeyedMutex()
    const events: string[] = []
    const first = Promise.withResolvers<void>()
    const leaving = new AbortController()
    const one = withLock('k', async () => {
      await first.promise
      events.push('one')
    })
    const two = withLock('k', async () => events.push('two'), leaving.signal)
    leaving.abort()
    await expect(two).rejects.toMatchObject({ name: 'AbortError' })
    const three = withLock('k', async () => events.push('three'))
    first.resolve()
    await Promise.all([one, three])
    expect(events).toEqual(['one', 'three'])
    await expect(withLock('k', async () => 'alone', leaving.signal)).resolves.toBe('alone')
  })
})
