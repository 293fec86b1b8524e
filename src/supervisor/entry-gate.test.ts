import { expect, it } from 'vitest'
import { createEntryGate } from './entry-gate.ts'

/** A promise that the test resolves. */
function step() {
  let end = (): void => {}
  let fail = (_error: Error): void => {}
  const done = new Promise<void>((resolve, reject) => {
    end = resolve
    fail = reject
  })
  return { done, end, fail }
}
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

it('closes once those on their way are inside, whether they got there or not, and keeps the others out', async () => {
  const gate = createEntryGate()
  const seen: string[] = []
  const [first, second, copying] = [step(), step(), step()]
  const entries = [first, second].map((entry) => gate.enter(() => entry.done))
  const refused = expect(entries[1]).rejects.toThrow('not let in')
  const closed = gate.whileClosed(async () => {
    seen.push('closed')
    await copying.done
    seen.push('copied')
    return 'copy'
  })
  const late = gate.enter(async () => {
    seen.push('late')
    return 'entered'
  })
  await turn()
  expect(seen).toEqual([])
  first.end()
  await turn()
  expect(seen).toEqual([])
  second.fail(new Error('not let in'))
  await refused
  await turn()
  expect(seen).toEqual(['closed'])
  copying.end()
  expect([await closed, await late]).toEqual(['copy', 'entered'])
  expect(seen).toEqual(['closed', 'copied', 'late'])
})

it('opens again after what failed while it was closed', async () => {
  const gate = createEntryGate()
  const failing = gate.whileClosed(() => Promise.reject(new Error('no copy')))
  const late = gate.enter(async () => 'entered')
  await expect(failing).rejects.toThrow('no copy')
  expect(await late).toBe('entered')
})
