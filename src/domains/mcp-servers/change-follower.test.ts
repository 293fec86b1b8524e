import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { limits } from '../../contract/limits.ts'
import { tenantId } from '../../contract/principal.ts'
import { createBackground } from '../../kernel/background.ts'
import { createChangeFollower } from './change-follower.ts'

beforeEach(() => vi.useFakeTimers())
afterEach(() => vi.useRealTimers())

function open() {
  const asked: [string, number][] = []
  const startMs = performance.now()
  const clock = { monotonicMs: () => performance.now() }
  const background = createBackground((error) => {
    throw error
  })
  /** How long it takes to fetch and store the list. */
  const work = { ms: 0 }
  const follow = createChangeFollower(clock, background, async (_, key) => {
    asked.push([key, performance.now() - startMs])
    if (work.ms > 0) await new Promise((resolve) => setTimeout(resolve, work.ms))
  })
  return { asked, work, background, follow: (key: string) => follow(tenantId('local'), key) }
}

it('asks a server that always says that its tools changed less and less often', async () => {
  const { asked, follow } = open()
  const HOUR_MS = 3_600_000
  for (let ms = 0; ms < HOUR_MS; ms += 500) {
    follow('a')
    await vi.advanceTimersByTimeAsync(500)
  }
  const gaps = asked.slice(1).map(([, ms], index) => ms - asked[index]![1])
  expect(asked[0]).toEqual(['a', 0])
  expect(gaps.every((gap, index) => index === 0 || gap >= gaps[index - 1]!)).toBe(true)
  expect(gaps.at(-1)).toBeGreaterThanOrEqual(limits.mcpRelistMsMax)
  expect(asked.length).toBeLessThan(20 + HOUR_MS / limits.mcpRelistMsMax)
})

it('follows what is said during a pause, and at once after a quiet time', async () => {
  const { asked, follow } = open()
  follow('a')
  await vi.advanceTimersByTimeAsync(0)
  follow('a')
  follow('a')
  follow('b')
  await vi.advanceTimersByTimeAsync(limits.mcpRelistMs)
  expect(asked).toEqual([
    ['a', 0],
    ['b', 0],
    ['a', limits.mcpRelistMs],
  ])
  await vi.advanceTimersByTimeAsync(10 * limits.mcpRelistMsMax)
  follow('a')
  await vi.advanceTimersByTimeAsync(0)
  expect(asked).toHaveLength(4)
})

it('asks a server with a list that takes long so rarely that it takes a small part of the time', async () => {
  const { asked, work, follow } = open()
  work.ms = 3_000
  follow('a')
  for (let ms = 0; ms < 120_000; ms += 100) {
    await vi.advanceTimersByTimeAsync(100)
    follow('a')
  }
  expect(asked.map(([, ms]) => ms)).toEqual([0, 3_000 * (limits.mcpRelistRestFactor + 1)])
})

it('asks no more once it is closed, and is closed when the last list is stored', async () => {
  const { asked, work, background, follow } = open()
  work.ms = 3_000
  follow('a')
  await vi.advanceTimersByTimeAsync(1_000)
  follow('a')
  follow('b')
  let isClosed = false
  const closed = background.close().then(() => {
    isClosed = true
  })
  await vi.advanceTimersByTimeAsync(1_000)
  expect(isClosed).toBe(false)
  await vi.advanceTimersByTimeAsync(1_000)
  await closed
  follow('a')
  await vi.advanceTimersByTimeAsync(1_000_000)
  expect(asked).toEqual([['a', 0]])
})
