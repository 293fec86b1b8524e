import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { consistencyProof, inclusionProof, rootAt } from '../../test/support/proofs.ts'
import { AppError } from '../contract/app-error.ts'
import {
  assembleProof,
  nodeLocation,
  type ProofPlan,
  planConsistency,
  planInclusion,
  plannedNodes,
  verifyConsistency,
  verifyInclusion,
} from './proof.ts'
import { appendLeaf, emptyHead, emptyRoot, innerHash, leafHash, type TreeHead } from './tree.ts'

const LEAVES = 300
const leaves: Buffer[] = []
const rows: Buffer[] = []
let head: TreeHead = emptyHead
for (let seq = 0; seq < LEAVES; seq++) {
  leaves.push(leafHash(`entry ${seq}`))
  const appended = appendLeaf(head, leaves[seq]!)
  head = appended.head
  rows.push(appended.nodes)
}

const nodeOf =
  (stored: readonly Buffer[]) =>
  (level: number, index: number): Buffer => {
    const { seq, offset } = nodeLocation({ level, index })
    return stored[seq]!.subarray(offset, offset + 32)
  }
const readNode = nodeOf(rows)

function naiveRoot(part: readonly Buffer[]): Buffer {
  if (part.length === 0) return emptyRoot()
  if (part.length === 1) return part[0]!
  const split = splitOf(part.length)
  return innerHash(naiveRoot(part.slice(0, split)), naiveRoot(part.slice(split)))
}

function splitOf(length: number): number {
  let split = 1
  while (split * 2 < length) split *= 2
  return split
}

/** PATH of RFC 9162 §2.1.3.1. */
function naivePath(index: number, part: readonly Buffer[]): Buffer[] {
  if (part.length === 1) return []
  const split = splitOf(part.length)
  return index < split
    ? [...naivePath(index, part.slice(0, split)), naiveRoot(part.slice(split))]
    : [...naivePath(index - split, part.slice(split)), naiveRoot(part.slice(0, split))]
}

/** SUBPROOF of RFC 9162 §2.1.4.1. */
function naiveSubproof(oldSize: number, part: readonly Buffer[], whole: boolean): Buffer[] {
  if (oldSize === part.length) return whole ? [] : [naiveRoot(part)]
  const split = splitOf(part.length)
  return oldSize <= split
    ? [...naiveSubproof(oldSize, part.slice(0, split), whole), naiveRoot(part.slice(split))]
    : [...naiveSubproof(oldSize - split, part.slice(split), false), naiveRoot(part.slice(0, split))]
}

const sizes = fc.integer({ min: 1, max: LEAVES })
const indexInSize = sizes.chain((size) => fc.tuple(fc.integer({ min: 0, max: size - 1 }), fc.constant(size)))
const sizePair = sizes.chain((newSize) => fc.tuple(fc.integer({ min: 0, max: newSize }), fc.constant(newSize)))

describe('inclusion proofs', () => {
  it('are those of the recursive definition, and verify', () => {
    fc.assert(
      fc.property(indexInSize, ([index, size]) => {
        const proof = inclusionProof(index, size, readNode)
        expect(proof).toEqual(naivePath(index, leaves.slice(0, size)))
        const root = rootAt(size, readNode)
        expect(root).toEqual(naiveRoot(leaves.slice(0, size)))
        expect(verifyInclusion({ index, size, leaf: leaves[index]!, proof, root })).toBe(true)
      }),
      { numRuns: 300 },
    )
  })

  it('do not verify for anything that differs in one part', () => {
    fc.assert(
      fc.property(indexInSize, fc.nat(), fc.nat(255), ([index, size], where, flip) => {
        const proof = inclusionProof(index, size, readNode)
        const root = rootAt(size, readNode)
        const claim = { index, size, leaf: leaves[index]!, proof, root }
        const changed = (hash: Buffer): Buffer => {
          const copy = Buffer.from(hash)
          copy[where % 32] = copy[where % 32]! ^ (flip || 1)
          return copy
        }
        expect(verifyInclusion({ ...claim, leaf: changed(claim.leaf) })).toBe(false)
        expect(verifyInclusion({ ...claim, root: changed(root) })).toBe(false)
        for (const at of proof.keys()) {
          expect(verifyInclusion({ ...claim, proof: proof.with(at, changed(proof[at]!)) })).toBe(false)
          expect(verifyInclusion({ ...claim, proof: proof.toSpliced(at, 1) })).toBe(false)
        }
        expect(verifyInclusion({ ...claim, proof: [...proof, root] })).toBe(false)
        const otherIndex = where % size
        if (otherIndex !== index) expect(verifyInclusion({ ...claim, index: otherIndex })).toBe(false)
        expect(verifyInclusion({ ...claim, index: size })).toBe(false)
        expect(verifyInclusion({ ...claim, size: index })).toBe(false)
        expect(verifyInclusion({ ...claim, index: -1 })).toBe(false)
        expect(verifyInclusion({ ...claim, index: 0.5 })).toBe(false)
        expect(verifyInclusion({ ...claim, leaf: claim.leaf.subarray(1) })).toBe(false)
      }),
      { numRuns: 100 },
    )
  })

  it('need a logarithmic number of nodes, also beyond 32 bits', () => {
    expect(planInclusion(0, 1)).toEqual([])
    for (const size of [2 ** 31 + 7, 2 ** 32, 2 ** 40 - 1, 2 ** 52 + 12_345]) {
      for (const index of [0, 1, Math.floor(size / 3), size - 1]) {
        const nodes = plannedNodes(planInclusion(index, size))
        expect(nodes.length).toBeLessThanOrEqual(106)
        for (const node of nodes) expect(nodeLocation(node).seq).toBeLessThan(size)
        expect(coveredEntries(planInclusion(index, size))).toBe(size - 1)
      }
    }
  })

  it('refuse an index outside the tree', () => {
    expect(() => planInclusion(5, 5)).toThrow(AppError)
    expect(() => planInclusion(-1, 5)).toThrow(AppError)
    expect(() => planInclusion(0, 0)).toThrow(AppError)
    expect(() => planInclusion(0, 1.5)).toThrow(AppError)
  })
})

describe('consistency proofs', () => {
  it('are those of the recursive definition, and verify', () => {
    fc.assert(
      fc.property(sizePair, ([oldSize, newSize]) => {
        const proof = consistencyProof(oldSize, newSize, readNode)
        if (oldSize > 0) expect(proof).toEqual(naiveSubproof(oldSize, leaves.slice(0, newSize), true))
        else expect(proof).toEqual([])
        const oldRoot = rootAt(oldSize, readNode)
        const newRoot = rootAt(newSize, readNode)
        expect(verifyConsistency({ oldSize, newSize, oldRoot, newRoot, proof })).toBe(true)
      }),
      { numRuns: 300 },
    )
  })

  it('do not verify for anything that differs in one part', () => {
    fc.assert(
      fc.property(sizePair, fc.nat(), ([oldSize, newSize], where) => {
        const proof = consistencyProof(oldSize, newSize, readNode)
        const oldRoot = rootAt(oldSize, readNode)
        const newRoot = rootAt(newSize, readNode)
        const claim = { oldSize, newSize, oldRoot, newRoot, proof }
        const changed = (hash: Buffer): Buffer => {
          const copy = Buffer.from(hash)
          copy[where % 32] = copy[where % 32]! ^ 1
          return copy
        }
        expect(verifyConsistency({ ...claim, oldRoot: changed(oldRoot) })).toBe(false)
        // Nothing ties the empty tree to the root of a larger one.
        if (oldSize > 0) expect(verifyConsistency({ ...claim, newRoot: changed(newRoot) })).toBe(false)
        for (const at of proof.keys()) {
          expect(verifyConsistency({ ...claim, proof: proof.with(at, changed(proof[at]!)) })).toBe(false)
          expect(verifyConsistency({ ...claim, proof: proof.toSpliced(at, 1) })).toBe(false)
        }
        expect(verifyConsistency({ ...claim, proof: [...proof, newRoot] })).toBe(false)
        if (oldSize < newSize) {
          const swapped = { oldSize: newSize, newSize: oldSize, oldRoot: newRoot, newRoot: oldRoot, proof }
          expect(verifyConsistency(swapped)).toBe(false)
        }
      }),
      { numRuns: 100 },
    )
  })

  it('do not accept a rewritten history', () => {
    const forgedRows: Buffer[] = []
    let forged: TreeHead = emptyHead
    for (const [seq, leaf] of leaves.entries()) {
      const appended = appendLeaf(forged, seq === 17 ? leafHash('forged') : leaf)
      forged = appended.head
      forgedRows.push(appended.nodes)
    }
    for (const oldSize of [18, 32, 100, 256, 299]) {
      const proof = consistencyProof(oldSize, LEAVES, nodeOf(forgedRows))
      const oldRoot = rootAt(oldSize, readNode)
      const newRoot = rootAt(LEAVES, nodeOf(forgedRows))
      expect(verifyConsistency({ oldSize, newSize: LEAVES, oldRoot, newRoot, proof })).toBe(false)
    }
  })

  it('handle the empty tree and equal sizes', () => {
    const empty = emptyRoot()
    const one = leaves[0]!
    const base = { oldSize: 0, newSize: 0, oldRoot: empty, newRoot: empty, proof: [] }
    expect(verifyConsistency(base)).toBe(true)
    expect(verifyConsistency({ ...base, oldRoot: one, newRoot: one })).toBe(false)
    expect(verifyConsistency({ ...base, newSize: 1, newRoot: one })).toBe(true)
    expect(verifyConsistency({ ...base, newSize: 1, newRoot: one, oldRoot: one })).toBe(false)
    expect(verifyConsistency({ ...base, newSize: 1, newRoot: one, proof: [one] })).toBe(false)
    expect(verifyConsistency({ oldSize: 1, newSize: 1, oldRoot: one, newRoot: one, proof: [] })).toBe(true)
    expect(verifyConsistency({ oldSize: 1, newSize: 1, oldRoot: one, newRoot: one, proof: [one] })).toBe(false)
    expect(verifyConsistency({ oldSize: 1, newSize: 2, oldRoot: one, newRoot: one, proof: [] })).toBe(false)
    expect(() => planConsistency(3, 2)).toThrow(AppError)
    expect(() => planConsistency(-1, 2)).toThrow(AppError)
  })

  it('cover the whole new tree, also beyond 32 bits', () => {
    for (const [oldSize, newSize] of [
      [2 ** 32 + 5, 2 ** 40 + 3],
      [2 ** 35, 2 ** 36 - 1],
      [3, 2 ** 52 + 1],
    ] as const) {
      const plan = planConsistency(oldSize, newSize)
      const isPower = Number.isInteger(Math.log2(oldSize))
      expect(coveredEntries(plan)).toBe(isPower ? newSize - oldSize : newSize)
      expect(plannedNodes(plan).length).toBeLessThanOrEqual(106)
    }
  })
})

describe('reference vectors of Certificate Transparency', () => {
  const records = ['', '\x00', '\x10', ' !', '01', '@ABC', 'PQRSTUVW', '`abcdefghijklmno']
  const stored: Buffer[] = []
  let tree: TreeHead = emptyHead
  for (const record of records) {
    const appended = appendLeaf(tree, leafHash(record))
    tree = appended.head
    stored.push(appended.nodes)
  }
  const hex = (proof: Buffer[]): string[] => proof.map((hash) => hash.toString('hex'))
  const n0 = '6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d'
  const n1 = '96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7'
  const n23 = '5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e'
  const n4567 = '6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4'
  const n4 = 'bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b'
  const n67 = 'ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0'
  const n0123 = 'd37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7'
  const n01 = 'fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125'
  const n45 = '0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a'

  it.each([
    [0, 8, [n1, n23, n4567]],
    [5, 8, [n4, n67, n0123]],
    [2, 3, [n01]],
    [1, 5, [n0, n23, n4]],
    [0, 1, []],
  ])('inclusion of %i in %i', (index, size, expected) => {
    expect(hex(inclusionProof(index, size, nodeOf(stored)))).toEqual(expected)
  })

  it.each([
    [1, 1, []],
    [1, 8, [n1, n23, n4567]],
    [6, 8, [n45, n67, n0123]],
    [2, 5, [n23, n4]],
  ])('consistency of %i with %i', (oldSize, newSize, expected) => {
    expect(hex(consistencyProof(oldSize, newSize, nodeOf(stored)))).toEqual(expected)
  })

  it('refuses a stored node of the wrong length', () => {
    expect(() => assembleProof(planInclusion(0, 8), () => Buffer.alloc(31))).toThrow(AppError)
  })
})

const coveredEntries = (plan: ProofPlan): number => plan.flat().reduce((sum, node) => sum + 2 ** node.level, 0)
