import fc from 'fast-check'
import { expect, it } from 'vitest'
import { createInt8Product } from './int8-product.ts'

const { buffer, multiply } = createInt8Product(100_000)
const RIGHT_AT = 32_768
const OUT_AT = 65_536

it('multiplies rows and columns as plain numbers do', () => {
  const sizes = fc.record({
    rows: fc.constantFrom(1, 2, 3, 4, 5, 7, 8, 12),
    columns: fc.constantFrom(2, 6, 8),
    depth: fc.constantFrom(32, 96, 384),
    seed: fc.integer(),
  })
  fc.assert(
    fc.property(sizes, ({ rows, columns, depth, seed }) => {
      let state = seed
      const next = (range: number): number => {
        state = (Math.imul(state, 1_103_515_245) + 12_345) | 0
        return ((state >>> 8) % (2 * range + 1)) - range
      }
      const left = new Int16Array(buffer, 0, rows * depth).map(() => next(4_095))
      const right = new Int8Array(buffer, RIGHT_AT, columns * depth).map(() => next(127))
      new Int16Array(buffer, 0, rows * depth).set(left)
      new Int8Array(buffer, RIGHT_AT, columns * depth).set(right)
      multiply(0, RIGHT_AT, OUT_AT, rows, columns, depth)
      const expected = Array.from({ length: rows * columns }, (_, index) => {
        const row = Math.floor(index / columns) * depth
        const column = (index % columns) * depth
        let sum = 0
        for (let at = 0; at < depth; at++) sum += left[row + at]! * right[column + at]!
        return sum
      })
      expect([...new Int32Array(buffer, OUT_AT, rows * columns)]).toEqual(expected)
    }),
    { numRuns: 60 },
  )
})
