import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { AppError } from '../contract/app-error.ts'
import { assembleProof, nodeLocation, peakNodes, plannedNodes } from './proof.ts'
import { appendLeaf, emptyHead, emptyRoot, innerHash, leafHash, rootOf, type TreeHead, trailingZeros } from './tree.ts'

const sha256 = (...parts: Uint8Array[]): Buffer => {
  const hash = createHash('sha256')
  for (const part of parts) hash.update(part)
  return hash.digest()
}

/** The recursive definition of RFC 9162 §2.1.1, word for word. */
function naiveRoot(leaves: readonly Buffer[]): Buffer {
  if (leaves.length === 0) return sha256()
  if (leaves.length === 1) return leaves[0]!
  let split = 1
  while (split * 2 < leaves.length) split *= 2
  return sha256(Buffer.of(1), naiveRoot(leaves.slice(0, split)), naiveRoot(leaves.slice(split)))
}

/** The leaf inputs of the Certificate Transparency reference tests, and the root after each. */
const referenceRecords = ['', '\x00', '\x10', ' !', '01', '@ABC', 'PQRSTUVW', '`abcdefghijklmno']
const referenceRoots = [
  '6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d',
  'fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125',
  'aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77',
  'd37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7',
  '4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4',
  '76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef',
  'ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c',
  '5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328',
]

describe('tree', () => {
  it('gives the roots of the reference vectors', () => {
    let head: TreeHead = emptyHead
    expect(rootOf(0, head.peaks).toString('hex')).toBe(
      'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',
    )
    for (const [index, record] of referenceRecords.entries()) {
      head = appendLeaf(head, leafHash(record)).head
      expect(rootOf(head.size, head.peaks).toString('hex')).toBe(referenceRoots[index])
    }
  })

  it('hashes a record as its UTF-8 bytes after one zero byte, whatever its length', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', maxLength: 3000 }), (record) => {
        expect(leafHash(record)).toEqual(sha256(Buffer.of(0), Buffer.from(record, 'utf8')))
      }),
    )
    const large = 'Θ'.repeat(600_000)
    expect(leafHash(large)).toEqual(sha256(Buffer.of(0), Buffer.from(large, 'utf8')))
    expect(leafHash('{}')).toEqual(sha256(Buffer.of(0), Buffer.from('{}')))
  })

  it('agrees with the recursive definition at every size, and stores every node where it belongs', () => {
    let head: TreeHead = emptyHead
    const leaves: Buffer[] = []
    const rows: Buffer[] = []
    for (let seq = 0; seq < 300; seq++) {
      const leaf = leafHash(`record ${seq}`)
      leaves.push(leaf)
      const appended = appendLeaf(head, leaf)
      head = appended.head
      rows.push(appended.nodes)
      expect(appended.nodes.length).toBe(32 * (trailingZeros(seq + 1) + 1))
      for (let level = 0; level <= trailingZeros(seq + 1); level++) {
        const subtree = leaves.slice(seq + 1 - 2 ** level)
        expect(appended.nodes.subarray(32 * level, 32 * level + 32)).toEqual(naiveRoot(subtree))
      }
      expect(rootOf(head.size, head.peaks)).toEqual(naiveRoot(leaves))
    }
    for (const size of [1, 2, 3, 100, 255, 256, 257, 300]) {
      const plan = [peakNodes(size)]
      expect(plannedNodes(plan).length).toBeLessThanOrEqual(9)
      const [root] = assembleProof(plan, (level, index) => {
        const { seq, offset } = nodeLocation({ level, index })
        return rows[seq]!.subarray(offset, offset + 32)
      })
      expect(root).toEqual(naiveRoot(leaves.slice(0, size)))
    }
  })

  it('leaves the head it was given untouched', () => {
    const first = appendLeaf(emptyHead, leafHash('a')).head
    const before = Buffer.from(first.peaks)
    appendLeaf(first, leafHash('b'))
    expect(first.peaks).toEqual(before)
    expect(first.size).toBe(1)
  })

  it('counts trailing zeros beyond 32 bits', () => {
    for (let power = 0; power <= 52; power++) {
      expect(trailingZeros(2 ** power)).toBe(power)
      if (power > 0) expect(trailingZeros(2 ** power + 1)).toBe(0)
    }
    expect(trailingZeros(3 * 2 ** 40)).toBe(40)
  })

  it('refuses a head whose peaks do not fit its size', () => {
    const leaf = leafHash('x')
    expect(() => appendLeaf({ size: 3, peaks: Buffer.alloc(32) }, leaf)).toThrow(AppError)
    expect(() => appendLeaf({ size: -1, peaks: Buffer.alloc(0) }, leaf)).toThrow(AppError)
    expect(() => appendLeaf({ size: 0.5, peaks: Buffer.alloc(0) }, leaf)).toThrow(AppError)
    expect(() => appendLeaf(emptyHead, leaf.subarray(1))).toThrow(AppError)
    expect(() => rootOf(2 ** 33 + 1, Buffer.alloc(32))).toThrow(AppError)
    expect(rootOf(2 ** 33 + 1, Buffer.alloc(64))).toEqual(innerHash(Buffer.alloc(32), Buffer.alloc(32)))
    expect(emptyRoot()).toEqual(sha256())
  })
})
