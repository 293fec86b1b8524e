import { expect, it } from 'vitest'
import { createEntryTimes } from './entry-times.ts'

type Entry = Readonly<{ ms: number; lasted?: number; calls?: readonly Entry[] }>
const isoAt = (ms: number): string => new Date(1_700_000_000_000 + ms).toISOString()
const recordOf = ({ ms, lasted, calls }: Entry): object => ({
  at: isoAt(ms),
  ...(lasted !== undefined && { duration_ms: lasted }),
  ...(calls && { calls: calls.map(recordOf) }),
})

const warnings = (...entries: readonly Entry[]) => {
  const times = createEntryTimes()
  for (const [seq, entry] of entries.entries()) times.see(isoAt(entry.ms), seq, () => recordOf(entry))
  return times.reversals()
}
const none = { count: 0, firstSeq: undefined }

it('says nothing of a call that is logged after those that it made', () => {
  expect(warnings({ ms: 100, lasted: 50 }, { ms: 0, lasted: 200 }, { ms: 300, lasted: 1 })).toEqual(none)
  expect(warnings({ ms: 100, lasted: 0 }, { ms: 0, lasted: 99.2 })).toEqual(none)
})

it('notices a call that was over before one ahead of it began', () => {
  expect(warnings({ ms: 100, lasted: 50 }, { ms: 0, lasted: 50 })).toEqual({ count: 1, firstSeq: 1 })
  expect(warnings({ ms: 100 }, { ms: 0 })).toEqual({ count: 1, firstSeq: 1 })
  expect(warnings({ ms: 0 }, { ms: 500 }, { ms: 200, lasted: 10 }, { ms: 600 })).toEqual({ count: 1, firstSeq: 2 })
})

it('looks at the last of several reads', () => {
  const reads = (lasted: number): Entry => ({
    ms: 0,
    calls: [
      { ms: 0, lasted },
      { ms: 1, lasted: 2 },
    ],
  })
  expect(warnings({ ms: 100 }, reads(150))).toEqual(none)
  expect(warnings({ ms: 100 }, reads(5))).toEqual({ count: 1, firstSeq: 1 })
})

it('warns once for each time that the clock was set back', () => {
  expect(warnings({ ms: 9_000 }, { ms: 0 }, { ms: 1 }, { ms: 2 }, { ms: 8_000 }, { ms: 10 })).toEqual({
    count: 2,
    firstSeq: 1,
  })
})
