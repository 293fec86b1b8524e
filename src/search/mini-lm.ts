import { closeSync, openSync, readSync, statSync } from 'node:fs'
import { createInt8Product } from '../kernel/int8-product.ts'
import { readOnnxTensors } from './onnx-tensors.ts'

/** BERT with six layers, as all-MiniLM-L6-v2 has them; its 8-bit weights are read from the ONNX file. */
const WIDTH = 384
const INNER_WIDTH = 1536
const LAYERS = 6
const HEADS = 12
const HEAD_WIDTH = WIDTH / HEADS
const NORM_EPSILON = 1e-12
/** The embeddings are stored as bytes around this value; other weights have their sign. */
const EMBEDDING_ZERO = 128
/** 12 bits and a sign: 1536 products with 8-bit weights stay below 31 bits. */
const ACTIVATION_MAX = 4095
const ROUNDING_BASE = 32_768
const ALIGNMENT_BYTES = 16
/** Divides the depth of every matrix. */
const STRIP_ROWS = 64
/** More tokens add little meaning, and cost quadratic time. */
export const TOKENS_MAX = 128

type Linear = Readonly<{ at: number; columns: number; depth: number; scales: Float32Array; bias: Float32Array }>
type Norm = Readonly<{ weight: Float32Array; bias: Float32Array }>
type Layer = Readonly<{
  /** Queries, keys and values beside each other. */
  projections: Linear
  attended: Linear
  attendedNorm: Norm
  inner: Linear
  outer: Linear
  outerNorm: Norm
}>
type Table = Readonly<{ bytes: Uint8Array; scale: number }>

/** Numbers of word pieces, with the marks of beginning and end, to a vector of length 1. */
type SentenceModel = (tokens: readonly number[]) => Float32Array

export function createMiniLm(path: string): SentenceModel {
  const { layers, words, positions, kinds, embeddedNorm, linear } = loadWeights(path)
  return (input) => {
    const tokens = input.slice(0, TOKENS_MAX)
    const count = tokens.length
    let hidden: Float32Array = new Float32Array(count * WIDTH)
    for (const [position, token] of tokens.entries()) {
      for (let index = 0; index < WIDTH; index++) {
        hidden[position * WIDTH + index] =
          entryOf(words, token, index) + entryOf(positions, position, index) + entryOf(kinds, 0, index)
      }
    }
    normalise(hidden, embeddedNorm)
    for (const layer of layers) {
      const attended = linear(attention(linear(hidden, layer.projections, count), count), layer.attended, count)
      addTo(attended, hidden)
      normalise(attended, layer.attendedNorm)
      const inner = linear(attended, layer.inner, count)
      for (let index = 0; index < inner.length; index++) inner[index] = gelu(inner[index]!)
      const outer = linear(inner, layer.outer, count)
      addTo(outer, attended)
      normalise(outer, layer.outerNorm)
      hidden = outer
    }
    return meanOf(hidden, count)
  }
}

/**
 * The file is read into the memory where its numbers are used. That memory is freed whole when the thread ends, unlike many large
 * buffers.
 */
function loadWeights(path: string) {
  const fileBytes = statSync(path).size
  const weightsAt = Math.ceil(fileBytes / ALIGNMENT_BYTES) * ALIGNMENT_BYTES
  const leftAt = weightsAt + LAYERS * WIDTH * (4 * WIDTH + 2 * INNER_WIDTH)
  const outAt = leftAt + TOKENS_MAX * INNER_WIDTH * 2
  const product = createInt8Product(outAt + TOKENS_MAX * INNER_WIDTH * 4)
  const target = new Uint8Array(product.buffer)
  readInto(target.subarray(0, fileBytes), path)
  const tensors = readOnnxTensors(target.subarray(0, fileBytes))
  const bytesOf = (name: string): Uint8Array => {
    const bytes = tensors.get(name)
    if (bytes === undefined) throw new Error(`the model has no ${name}`)
    return bytes
  }
  const floatsOf = (name: string): Float32Array => new Float32Array(Uint8Array.from(bytesOf(name)).buffer)
  const tableOf = (name: string): Table => ({
    bytes: bytesOf(`embeddings.${name}_embeddings.weight_quantized`),
    scale: floatsOf(`embeddings.${name}_embeddings.weight_scale`)[0]!,
  })
  const normOf = (name: string): Norm => ({ weight: floatsOf(`${name}.weight`), bias: floatsOf(`${name}.bias`) })

  // The exporter named the matrices by number, in the order in which they are used.
  const matrices = [...tensors.keys()]
    .flatMap((name) => /^onnx::MatMul_(\d+)_quantized$/.exec(name)?.[1] ?? [])
    .sort((left, right) => Number(left) - Number(right))
  let at = weightsAt
  const linearOf = (...biases: readonly string[]): Linear => {
    const start = at
    const bias = joined(biases.map(floatsOf))
    const scales = biases.map(() => {
      const name = `onnx::MatMul_${matrices.shift()}`
      const rows = bytesOf(`${name}_quantized`)
      const columns = bias.length / biases.length
      const depth = rows.length / columns
      transpose(rows, target, at, columns, depth)
      at += rows.length
      return floatsOf(`${name}_scale`)
    })
    return { at: start, columns: bias.length, depth: (at - start) / bias.length, scales: joined(scales), bias }
  }
  const layers = Array.from({ length: LAYERS }, (_, index): Layer => {
    const name = `encoder.layer.${index}`
    return {
      projections: linearOf(...['query', 'key', 'value'].map((part) => `${name}.attention.self.${part}.bias`)),
      attended: linearOf(`${name}.attention.output.dense.bias`),
      attendedNorm: normOf(`${name}.attention.output.LayerNorm`),
      inner: linearOf(`${name}.intermediate.dense.bias`),
      outer: linearOf(`${name}.output.dense.bias`),
      outerNorm: normOf(`${name}.output.LayerNorm`),
    }
  })
  return {
    layers,
    words: tableOf('word'),
    positions: tableOf('position'),
    kinds: tableOf('token_type'),
    embeddedNorm: normOf('embeddings.LayerNorm'),
    linear: createLinear(product, leftAt, outAt),
  }
}

/** In strips of rows, so that what is written one after the other lies side by side. */
function transpose(rows: Uint8Array, target: Uint8Array, at: number, columns: number, depth: number): void {
  for (let strip = 0; strip < depth; strip += STRIP_ROWS) {
    for (let column = 0; column < columns; column++) {
      const to = at + column * depth
      for (let row = strip; row < strip + STRIP_ROWS; row++) target[to + row] = rows[row * columns + column]!
    }
  }
}

function readInto(target: Uint8Array, path: string): void {
  const file = openSync(path, 'r')
  try {
    for (let at = 0; at < target.length; ) {
      const count = readSync(file, target, at, target.length - at, at)
      if (count === 0) throw new Error('the file of the model ended early')
      at += count
    }
  } finally {
    closeSync(file)
  }
}

function createLinear({ buffer, multiply }: ReturnType<typeof createInt8Product>, leftAt: number, outAt: number) {
  const left = new Int16Array(buffer, leftAt, TOKENS_MAX * INNER_WIDTH)
  const sums = new Int32Array(buffer, outAt, TOKENS_MAX * INNER_WIDTH)
  /** Each row is scaled to 12 bits by its largest value before it is multiplied. */
  return (input: Float32Array, { at, columns, depth, scales, bias }: Linear, count: number): Float32Array => {
    const rowScales = new Float32Array(count)
    for (let row = 0; row < count; row++) {
      const start = row * depth
      let largest = 1e-9
      for (let index = start; index < start + depth; index++) {
        const size = Math.abs(input[index]!)
        if (size > largest) largest = size
      }
      const factor = ACTIVATION_MAX / largest
      rowScales[row] = largest / ACTIVATION_MAX
      // Rounds half up in whole numbers, which is several times faster than Math.round.
      for (let index = start; index < start + depth; index++) {
        left[index] = ((input[index]! * factor + ROUNDING_BASE + 0.5) | 0) - ROUNDING_BASE
      }
    }
    multiply(leftAt, at, outAt, count, columns, depth)
    const output = new Float32Array(count * columns)
    for (let row = 0; row < count; row++) {
      const rowScale = rowScales[row]!
      const start = row * columns
      for (let column = 0; column < columns; column++) {
        output[start + column] = sums[start + column]! * rowScale * scales[column]! + bias[column]!
      }
    }
    return output
  }
}

const entryOf = ({ bytes, scale }: Table, row: number, index: number): number =>
  (bytes[row * WIDTH + index]! - EMBEDDING_ZERO) * scale

function joined(parts: readonly Float32Array[]): Float32Array {
  return Float32Array.from(parts.flatMap((part) => [...part]))
}

function addTo(target: Float32Array, other: Float32Array): void {
  for (let index = 0; index < target.length; index++) target[index]! += other[index]!
}

function normalise(values: Float32Array, { weight, bias }: Norm): void {
  for (let start = 0; start < values.length; start += WIDTH) {
    let sum = 0
    for (let index = 0; index < WIDTH; index++) sum += values[start + index]!
    const mean = sum / WIDTH
    let squares = 0
    for (let index = 0; index < WIDTH; index++) squares += (values[start + index]! - mean) ** 2
    const factor = 1 / Math.sqrt(squares / WIDTH + NORM_EPSILON)
    for (let index = 0; index < WIDTH; index++) {
      values[start + index] = (values[start + index]! - mean) * factor * weight[index]! + bias[index]!
    }
  }
}

/** For each head and token, the values of all tokens, weighted by how well their keys fit its query. */
function attention(projected: Float32Array, count: number): Float32Array {
  const output = new Float32Array(count * WIDTH)
  const shares = new Float64Array(count)
  const stride = 3 * WIDTH
  const scale = 1 / Math.sqrt(HEAD_WIDTH)
  for (let head = 0; head < WIDTH; head += HEAD_WIDTH) {
    for (let token = 0; token < count; token++) {
      fitOf(projected, token * stride + head, WIDTH + head, shares, scale)
      softmax(shares)
      for (let index = 0; index < HEAD_WIDTH; index++) {
        let sum = 0
        for (let other = 0, at = 2 * WIDTH + head + index; other < count; other++, at += stride) {
          sum += shares[other]! * projected[at]!
        }
        output[token * WIDTH + head + index] = sum
      }
    }
  }
  return output
}

function fitOf(projected: Float32Array, query: number, firstKey: number, shares: Float64Array, scale: number): void {
  for (let other = 0, key = firstKey; other < shares.length; other++, key += 3 * WIDTH) {
    let fit = 0
    for (let index = 0; index < HEAD_WIDTH; index++) fit += projected[query + index]! * projected[key + index]!
    shares[other] = fit * scale
  }
}

function softmax(values: Float64Array): void {
  let largest = Number.NEGATIVE_INFINITY
  for (const value of values) if (value > largest) largest = value
  let sum = 0
  for (let index = 0; index < values.length; index++) {
    values[index] = Math.exp(values[index]! - largest)
    sum += values[index]!
  }
  for (let index = 0; index < values.length; index++) values[index]! /= sum
}

function meanOf(hidden: Float32Array, count: number): Float32Array {
  const mean = new Float32Array(WIDTH)
  for (let index = 0; index < hidden.length; index++) mean[index % WIDTH]! += hidden[index]! / count
  const length = Math.hypot(...mean)
  return length === 0 ? mean : mean.map((value) => value / length)
}

const GELU_RANGE = 6
const GELU_STEPS_PER_UNIT = 512
const geluTable = Float64Array.from({ length: 2 * GELU_RANGE * GELU_STEPS_PER_UNIT + 2 }, (_, index) => {
  const value = index / GELU_STEPS_PER_UNIT - GELU_RANGE
  return (value * (1 + errorFunction(value / Math.SQRT2))) / 2
})

/** From a table, with straight lines between its points; outside of it the function is its own limit. */
function gelu(value: number): number {
  if (value >= GELU_RANGE) return value
  if (value <= -GELU_RANGE) return 0
  const offset = (value + GELU_RANGE) * GELU_STEPS_PER_UNIT
  const index = offset | 0
  return geluTable[index]! + (geluTable[index + 1]! - geluTable[index]!) * (offset - index)
}

/** Abramowitz and Stegun, 7.1.26: within 1.5e-7. */
function errorFunction(value: number): number {
  const size = Math.abs(value)
  const t = 1 / (1 + 0.3275911 * size)
  const series = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t
  return Math.sign(value) * (1 - series * Math.exp(-size * size))
}
