import { expect, it } from 'vitest'
import { createSemaphore } from './semaphore.ts'

/** Work that ends when it is told to, and what has started. */
function open(max: number) {
  const semaphore = createSemaphore(max)
  const started: number[] = []
  const start = (number: number, signal?: AbortSignal) => {
    const { promise, resolve, reject } = Promise.withResolvers<number>()
    const work = (): Promise<number> => {
      started.push(number)
      return promise
    }
    return { done: semaphore.run(work, signal), end: () => resolve(number), fail: reject }
  }
  const settled = () => new Promise((resolve) => setImmediate(resolve))
  return { started, start, settled }
}

it('lets so many begin at once, and the others in the order they came, whether work succeeds or fails', async () => {
  const { started, start, settled } = open(2)
  const [first, second, third, fourth] = [start(1), start(2), start(3), start(4)]
  await settled()
  expect(started).toEqual([1, 2])
  second.fail(new Error('no'))
  await expect(second.done).rejects.toThrow('no')
  await settled()
  expect(started).toEqual([1, 2, 3])
  first.end()
  expect(await first.done).toBe(1)
  await settled()
  expect(started).toEqual([1, 2, 3, 4])
  third.end()
  fourth.end()
  expect(await Promise.all([third.done, fourth.done])).toEqual([3, 4])
})

it('forgets who goes away while it waits, and lets nobody in who is gone already', async () => {
  const { started, start, settled } = open(1)
  const leaving = new AbortController()
  const [first, second, third] = [start(1), start(2, leaving.signal), start(3)]
  leaving.abort(new Error('gone'))
  await expect(second.done).rejects.toThrow('gone')
  await expect(start(4, leaving.signal).done).rejects.toThrow('gone')
  first.end()
  await settled()
  expect(started).toEqual([1, 3])
  third.end()
  await third.done
})
