import { meaningOf } from '../../../kernel/hybrid-rank.ts'
import { createInt8Product } from '../../../kernel/int8-product.ts'

/** The meaning of each document for a query, in order: a likeness from 0 to 1. A document without vectors has 0. */
type MeaningOfAll = (query: Float32Array) => Float64Array

const BYTE_MAX = 127
/** Products with bytes stay below 31 bits for vectors of up to 8,192 numbers. */
const QUERY_MAX = 2_047
const DEPTH_STEP = 32

/** A vector as signed bytes; its length is lost, which a cosine does not need. */
export function quantised(vector: Float32Array): Int8Array {
  const largest = vector.reduce((most, value) => Math.max(most, Math.abs(value)), 0)
  return Int8Array.from(vector, (value) => (largest === 0 ? 0 : Math.round((value / largest) * BYTE_MAX)))
}

/** Compares one query with the vectors of all documents at once. All vectors must have one length. */
export function createVectorTable(documents: readonly (readonly Int8Array[])[]): MeaningOfAll {
  const rows = documents.flat()
  const length = rows[0]?.length ?? 0
  if (rows.some((row) => row.length !== length)) throw new Error('vectors of different lengths')
  if (length === 0) return () => new Float64Array(documents.length)
  const depth = Math.ceil(length / DEPTH_STEP) * DEPTH_STEP
  const columns = rows.length + (rows.length % 2)
  const queryAt = columns * depth
  const sumsAt = queryAt + depth * 2
  const { buffer, multiply } = createInt8Product(sumsAt + columns * 4)
  const table = new Int8Array(buffer)
  for (const [index, row] of rows.entries()) table.set(row, index * depth)
  const sizes = Float64Array.from(rows, (row) => Math.hypot(...row))
  const starts = [0]
  for (const vectors of documents) starts.push(starts.at(-1)! + vectors.length)
  const query = new Int16Array(buffer, queryAt, length)
  const sums = new Int32Array(buffer, sumsAt, rows.length)

  return (queryVector) => {
    if (queryVector.length !== length) throw new Error('vectors of different lengths')
    const largest = queryVector.reduce((most, value) => Math.max(most, Math.abs(value)), 0)
    if (largest === 0) return new Float64Array(documents.length)
    query.set(queryVector.map((value) => Math.round((value / largest) * QUERY_MAX)))
    multiply(queryAt, 0, sumsAt, 1, columns, depth)
    const size = Math.hypot(...query)
    const likenesses = new Float64Array(rows.length)
    for (let row = 0; row < rows.length; row++) {
      if (sizes[row]! > 0) likenesses[row] = sums[row]! / (size * sizes[row]!)
    }
    const meanings = new Float64Array(documents.length)
    for (let index = 0; index < documents.length; index++) {
      meanings[index] = meaningOf(likenesses, starts[index]!, starts[index + 1]!)
    }
    return meanings
  }
}
