import fc from 'fast-check'
import { expect, it } from 'vitest'
import { topScores } from './top-scores.ts'

it('answers what sorting all of them would', () => {
  const scores = fc.array(fc.constantFrom(0, 0.5, 1, 1.5, 2, 7), { maxLength: 60 })
  fc.assert(
    fc.property(scores, fc.integer({ min: 1, max: 20 }), (values, count) => {
      const above = [...values.keys()].filter((index) => values[index]! > 0)
      const sorted = above.toSorted((left, right) => values[right]! - values[left]! || left - right)
      expect(topScores(Float64Array.from(values), count)).toEqual({
        first: sorted.slice(0, count),
        total: sorted.length,
      })
    }),
  )
})
