import fc from 'fast-check'
import { expect, it } from 'vitest'
import { likeness, meaningOf } from '../../../kernel/hybrid-rank.ts'
import { createVectorTable, quantised } from './vector-table.ts'

const number = fc.double({ min: -1, max: 1, noNaN: true })
const vectorOf = (length: number) =>
  fc.array(number, { minLength: length, maxLength: length }).map((values) => Float32Array.from(values))

it('compares as plain numbers do, whatever the length and the number of vectors', () => {
  const cases = fc.integer({ min: 1, max: 40 }).chain((length) =>
    fc.record({
      query: vectorOf(length),
      documents: fc.array(fc.array(vectorOf(length), { maxLength: 4 }), { maxLength: 6 }),
    }),
  )
  fc.assert(
    fc.property(cases, ({ query, documents }) => {
      fc.pre(documents.some((vectors) => vectors.length > 0))
      const bytes = documents.map((vectors) => vectors.map(quantised))
      const found = createVectorTable(bytes)(query)
      for (const [index, vectors] of bytes.entries()) {
        const exact = meaningOf(vectors.map((vector) => likeness(query, Float32Array.from(vector))))
        // A likeness below zero counts as zero there, and lowers the mean of three here.
        expect(found[index]!).toBeLessThanOrEqual(exact + 0.01)
        if (vectors.length === 1) expect(found[index]!).toBeCloseTo(exact, 2)
      }
    }),
  )
})

it('knows nothing of a document without vectors, nor of a query that is nothing', () => {
  const table = createVectorTable([[], [Int8Array.of(1, 0)]])
  expect([...table(Float32Array.of(1, 0))]).toEqual([0, 1])
  expect([...table(new Float32Array(2))]).toEqual([0, 0])
  expect([...createVectorTable([[], []])(Float32Array.of(1))]).toEqual([0, 0])
})

it('refuses vectors of another model', () => {
  expect(() => createVectorTable([[Int8Array.of(1)], [Int8Array.of(1, 2)]])).toThrow('different lengths')
  expect(() => createVectorTable([[Int8Array.of(1)]])(Float32Array.of(1, 2))).toThrow('different lengths')
})
