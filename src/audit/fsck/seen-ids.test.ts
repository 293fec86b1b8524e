import fc from 'fast-check'
import { expect, it } from 'vitest'
import { createSeenIds } from './seen-ids.ts'

it('behaves like a set, also while it grows', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(3000), { maxLength: 6000 }), (numbers) => {
      const seen = createSeenIds()
      const reference = new Set<number>()
      for (const number of numbers) {
        expect(seen.add(`call_${number}`)).toBe(!reference.has(number))
        reference.add(number)
      }
    }),
    { numRuns: 20 },
  )
  const seen = createSeenIds()
  for (let index = 0; index < 20_000; index++) expect(seen.add(String(index))).toBe(true)
  for (let index = 0; index < 20_000; index++) expect(seen.add(String(index))).toBe(false)
})
