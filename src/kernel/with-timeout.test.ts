import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, test } from 'vitest'
import { withTimeout } from './with-timeout.ts'

const unending = new AbortController().signal

test('the time is over though garbage was collected before anybody listened', async () => {
  setFlagsFromString('--expose-gc')
  const collectGarbage = runInNewContext('gc') as () => void
  const signal = withTimeout(unending, 1_000)
  // In tasks of their own, where nothing on the stack holds what was made above.
  for (let round = 0; round < 5; round++) {
    await new Promise((resolve) => setImmediate(resolve))
    collectGarbage()
  }
  await expect.poll(() => signal.aborted).toBe(true)
  expect(signal.reason).toMatchObject({ name: 'TimeoutError' })
})

test('ends with the signal', () => {
  const work = new AbortController()
  const signal = withTimeout(work.signal, 240_000)
  work.abort('enough')
  expect(signal.reason).toBe('enough')
  expect(withTimeout(work.signal, 240_000).aborted).toBe(true)
})
