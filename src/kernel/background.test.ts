import { expect, it } from 'vitest'
import { createBackground } from './background.ts'

it('ends when all that was started has ended, and starts nothing after that', async () => {
  const failures: unknown[] = []
  const background = createBackground((error) => void failures.push(error))
  const done: string[] = []
  const slow = Promise.withResolvers<void>()
  background.run(async (closed) => {
    await slow.promise
    done.push(closed.aborted ? 'slow, while closing' : 'slow')
  })
  background.run(() => Promise.reject(new Error('broken')))
  background.later(async () => void done.push('later'))
  const closed = background.close().then(() => done.push('closed'))
  background.run(async () => void done.push('too late'))
  await new Promise((resolve) => setTimeout(resolve, 0))
  slow.resolve()
  await closed
  expect(done).toEqual(['slow, while closing', 'closed'])
  expect(failures).toEqual([new Error('broken')])
})
