import { hash } from 'node:crypto'
import type { RawLogEntry } from './ports.ts'
import { appendLeaf, emptyHead, HASH_BYTES, innerHash, rootOf, trailingZeros } from './tree.ts'

/**
 * The tree as stored, checked entry by entry. Every stored leaf must be the hash of its record, and every stored inner node the
 * hash of its two children as stored: so damage is found where it is, and not at every node above it. Missing entries leave nodes
 * unknown; what can still be checked is checked.
 */
export type StoredTree = Readonly<{
  /** Whether the record matches its stored leaf. Entries come in rising order. */
  add(entry: RawLogEntry): boolean
  size(): number
  /** The correct leaf of the last entry, whatever is stored. */
  lastLeaf(): string
  /** The concatenated peaks over the entries so far; undefined if not all are known. */
  peaks(): Buffer | undefined
  firstBadSeq(): number | null
  /** Where an inner node does not follow from its children; then the entries that do not match their positions. */
  distrusted(): readonly DistrustedRange[]
}>

/**
 * Entries `[from, to)` below an invalid node. `expectedHash` is the stored hash, undefined if there is none; `actualHash` follows
 * from the children.
 */
export type DistrustedRange = Readonly<{
  from: number
  to: number
  expectedHash: string | undefined
  actualHash: string
}>

/** Hashes are binary strings here: they cost less than half as much as Buffers. */
type Subtree = { index: number; hash: string }

const DISTRUSTED_MAX = 10_000

export function createStoredTree(): StoredTree {
  // Index = level: the last subtree with an even index, which is the left partner of the next one.
  const lefts: (Subtree | undefined)[] = []
  const ranges: DistrustedRange[] = []
  const misfits: DistrustedRange[] = []
  const hashRecord = createLeafHasher()
  const join = createPairHasher()
  let leaf = ''
  let size = 0
  let firstBad: number | null = null

  const bad = (seq: number) => {
    firstBad ??= seq
  }
  const distrust = (from: number, expected: string | undefined, actual: string) => {
    bad(size - 1)
    const list = from === size - 1 ? misfits : ranges
    if (list.length >= DISTRUSTED_MAX) return
    const expectedHash = expected === undefined ? undefined : hexOf(expected)
    list.push({ from, to: size, expectedHash, actualHash: hexOf(actual) })
  }

  return {
    add({ seq, record, nodes }) {
      if (seq > size) bad(size)
      size = seq + 1
      leaf = hashRecord(record)
      const stored = Buffer.from(nodes.buffer, nodes.byteOffset, nodes.length)
      const merges = trailingZeros(size)
      const storedLeaf = nodeAt(stored, 0)
      const leafIntact = storedLeaf === leaf
      if (!leafIntact) bad(seq)
      else if (stored.length !== (merges + 1) * HASH_BYTES) distrust(seq, undefined, leaf)
      let node: string | undefined = storedLeaf ?? leaf
      let index = seq
      for (let level = 0; level < merges; level++) {
        const left = lefts[level]
        const above = nodeAt(stored, level + 1)
        const computed: string | undefined =
          left !== undefined && left.index === index - 1 && node !== undefined ? join(left.hash, node) : undefined
        if (computed !== undefined && above !== computed) distrust(size - 2 ** (level + 1), above, computed)
        node = above ?? computed
        index = Math.floor(index / 2)
      }
      lefts[merges] = node === undefined ? undefined : { index, hash: node }
      return leafIntact
    },
    size: () => size,
    lastLeaf: () => hexOf(leaf),
    peaks() {
      const hashes: Buffer[] = []
      for (let level = 0, count = size; count > 0; level++, count = Math.floor(count / 2)) {
        if (count % 2 === 0) continue
        const peak = lefts[level]
        if (peak?.index !== count - 1) return undefined
        hashes.unshift(Buffer.from(peak.hash, 'latin1'))
      }
      return Buffer.concat(hashes)
    },
    firstBadSeq: () => firstBad,
    distrusted: () => [...ranges, ...misfits],
  }
}

const hexOf = (binary: string): string => Buffer.from(binary, 'latin1').toString('hex')

function nodeAt(stored: Buffer, level: number): string | undefined {
  const end = (level + 1) * HASH_BYTES
  return stored.length < end ? undefined : stored.toString('latin1', end - HASH_BYTES, end)
}

function createLeafHasher(): (record: Uint8Array) => string {
  let input = Buffer.alloc(8_192)
  return (record) => {
    if (input.length <= record.length) input = Buffer.alloc(2 ** Math.ceil(Math.log2(record.length + 1)))
    input.set(record, 1)
    return hash('sha256', input.subarray(0, 1 + record.length), 'binary')
  }
}

function createPairHasher(): (left: string, right: string) => string {
  const pair = Buffer.alloc(1 + 2 * HASH_BYTES, 1)
  return (left, right) => {
    pair.write(left, 1, 'latin1')
    pair.write(right, 1 + HASH_BYTES, 'latin1')
    return hash('sha256', pair, 'binary')
  }
}

/** The root over the stored peaks; undefined if they cannot be the peaks of a tree. */
export function rootOrUndefined(size: number, peaks: Buffer | undefined): string | undefined {
  if (peaks === undefined || peaks.length % HASH_BYTES !== 0 || (size === 0) !== (peaks.length === 0)) return undefined
  if (size === 0) return hash('sha256', '', 'hex')
  let root: Buffer = peaks.subarray(peaks.length - HASH_BYTES)
  for (let end = peaks.length - HASH_BYTES; end > 0; end -= HASH_BYTES)
    root = innerHash(peaks.subarray(end - HASH_BYTES, end), root)
  return root.toString('hex')
}

/**
 * The roots that follow from the stored leaves alone, at these sizes. Used when inner nodes are wrong: if the leaves still give
 * the known roots, every record is intact and only inner nodes are damaged.
 */
export async function rootsFromLeaves(
  pages: AsyncIterable<readonly RawLogEntry[]>,
  sizes: readonly number[],
): Promise<ReadonlyMap<number, string>> {
  const roots = new Map<number, string>()
  let head = emptyHead
  const note = () => {
    if (sizes.includes(head.size)) roots.set(head.size, rootOf(head.size, head.peaks).toString('hex'))
  }
  note()
  for await (const page of pages) {
    for (const entry of page) {
      if (entry.seq !== head.size || entry.nodes.length < HASH_BYTES) return roots
      head = appendLeaf(head, Buffer.from(entry.nodes.subarray(0, HASH_BYTES))).head
      note()
    }
  }
  return roots
}
