import { hash } from 'node:crypto'
import { AppError } from '../contract/app-error.ts'

/**
 * The append side of the RFC 9162 Merkle tree: leaf = SHA-256(0x00 ‖ record), inner = SHA-256(0x01 ‖ left ‖ right).
 * Only the peaks (the hashes of the perfect subtrees, largest first) are needed to append and to know the root.
 */
export const HASH_BYTES = 32

/** `peaks` holds one hash for every bit set in `size`. A head is a value: appending returns a new one. */
export type TreeHead = Readonly<{ size: number; peaks: Buffer }>

type AppendedLeaf = Readonly<{
  head: TreeHead
  /** The hashes of the subtrees that this leaf completes, level 0 (the leaf itself) upwards, concatenated. */
  nodes: Buffer
}>

export const emptyHead: TreeHead = Object.freeze({ size: 0, peaks: Buffer.alloc(0) })

/** The root of the tree without leaves: SHA-256 of nothing. */
export const emptyRoot = (): Buffer => hash('sha256', '', 'buffer')

/**
 * A digest as a binary string costs less than half as much as a Buffer, and is copied with one call. Both scratch buffers are
 * used within one synchronous call only.
 */
const innerInput = Buffer.alloc(1 + 2 * HASH_BYTES, 1)
let leafInput = Buffer.alloc(4096)

export function leafHash(record: string): Buffer {
  const bytesMax = 1 + record.length * 3
  if (leafInput.length < bytesMax) {
    if (bytesMax > 1 << 20) return hashLeafInput(Buffer.from(`\0${record}`, 'utf8'))
    leafInput = Buffer.alloc(2 ** Math.ceil(Math.log2(bytesMax)))
  }
  const bytes = 1 + leafInput.write(record, 1, 'utf8')
  return hashLeafInput(leafInput.subarray(0, bytes))
}

/** For a caller that already holds a zero byte followed by the bytes of the record. */
export const hashLeafInput = (prefixed: Buffer): Buffer => Buffer.from(hash('sha256', prefixed, 'binary'), 'binary')

export function innerHash(left: Uint8Array, right: Uint8Array): Buffer {
  innerInput.set(left, 1)
  innerInput.set(right, 1 + HASH_BYTES)
  return Buffer.from(hash('sha256', innerInput, 'binary'), 'binary')
}

/** Throws ERR_LOG_INVALID when the peaks cannot belong to a tree of that size. */
export function appendLeaf(head: TreeHead, leaf: Buffer): AppendedLeaf {
  const { size, peaks } = head
  assertHead(size, peaks)
  if (leaf.length !== HASH_BYTES) throw invalidHead(`a leaf hash must be ${HASH_BYTES} bytes long, not ${leaf.length}`)
  const merges = trailingZeros(size + 1)
  const nodes = Buffer.allocUnsafe((merges + 1) * HASH_BYTES)
  leaf.copy(nodes, 0)
  let peakEnd = peaks.length
  for (let level = 0; level < merges; level++) {
    peaks.copy(innerInput, 1, peakEnd - HASH_BYTES, peakEnd)
    nodes.copy(innerInput, 1 + HASH_BYTES, level * HASH_BYTES, (level + 1) * HASH_BYTES)
    nodes.write(hash('sha256', innerInput, 'binary'), (level + 1) * HASH_BYTES, 'binary')
    peakEnd -= HASH_BYTES
  }
  const nextPeaks = Buffer.allocUnsafe(peakEnd + HASH_BYTES)
  peaks.copy(nextPeaks, 0, 0, peakEnd)
  nodes.copy(nextPeaks, peakEnd, merges * HASH_BYTES)
  return { head: { size: size + 1, peaks: nextPeaks }, nodes }
}

/** The root of the whole tree: the peaks folded from the smallest to the largest. */
export function rootOf(size: number, peaks: Buffer): Buffer {
  assertHead(size, peaks)
  if (size === 0) return emptyRoot()
  let end = peaks.length - HASH_BYTES
  let root: Buffer = Buffer.from(peaks.subarray(end))
  while (end > 0) {
    root = innerHash(peaks.subarray(end - HASH_BYTES, end), root)
    end -= HASH_BYTES
  }
  return root
}

/** Exact for every safe integer above zero, where 32-bit operators alone are not. */
export function trailingZeros(value: number): number {
  const low = value >>> 0
  if (low !== 0) return 31 - Math.clz32(low & -low)
  const high = Math.floor(value / 2 ** 32)
  return 32 + (31 - Math.clz32(high & -high))
}

function assertHead(size: number, peaks: Buffer): void {
  if (!Number.isSafeInteger(size) || size < 0) throw invalidHead(`the size must be a whole number, not ${size}`)
  const expected = (bitCount(size >>> 0) + bitCount(Math.floor(size / 2 ** 32))) * HASH_BYTES
  if (peaks.length !== expected) {
    throw invalidHead(`a tree of ${size} entries must have ${expected} bytes of peaks, not ${peaks.length}`)
  }
}

function bitCount(word: number): number {
  let bits = word - ((word >>> 1) & 0x55555555)
  bits = (bits & 0x33333333) + ((bits >>> 2) & 0x33333333)
  return (((bits + (bits >>> 4)) & 0x0f0f0f0f) * 0x01010101) >>> 24
}

const invalidHead = (reason: string): AppError =>
  new AppError('ERR_LOG_INVALID', `The log head is damaged: ${reason}. Run castellan verify.`, { rule: 'head' })
