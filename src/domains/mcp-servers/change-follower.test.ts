import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { limits } from '../../contract/limits.ts'
import { tenantId } from '../../contract/principal.ts'
import { createChangeFollower } from './change-follower.ts'

beforeEach(() => vi.useFakeTimers())
afterEach(() => vi.useRealTimers())

function open() {
  const asked: [string, number][] = []
  const startMs = performance.now()
  const clock = { monotonicMs: () => performance.now() }
  const follow = createChangeFollower(clock, async (_, key) => void asked.push([key, performance.now() - startMs]))
  return { asked, follow: (key: string) => follow(tenantId('local'), key) }
}

it('asks a server that always says that its tools changed less and less often', () => {
  const { asked, follow } = open()
  const HOUR_MS = 3_600_000
  for (let ms = 0; ms < HOUR_MS; ms += 500) {
    follow('a')
    vi.advanceTimersByTime(500)
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
