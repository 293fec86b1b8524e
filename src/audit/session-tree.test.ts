import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { AppError } from '../contract/app-error.ts'
import { sha256Hex } from '../kernel/hash.ts'
import { createSessionTree } from './session-tree.ts'

function sessionTree(leaves: Iterable<string>) {
  const tree = createSessionTree()
  for (const leaf of leaves) tree.add(leaf)
  return tree.summary()
}

/** Level by level, as the audit tools' documentation tells it. */
function naiveTree(leaves: readonly string[]): { root: string; depth: number } {
  if (leaves.length === 0) return { root: sha256Hex(''), depth: 0 }
  let level = [...leaves]
  let depth = 1
  while (level.length > 1) {
    const next: string[] = []
    for (let index = 0; index < level.length; index += 2) {
      const [left, right] = [level[index]!, level[index + 1]]
      const both = Buffer.from(left + (right ?? ''), 'hex')
      next.push(right === undefined ? left : createHash('sha256').update(both).digest('hex'))
    }
    level = next
    depth++
  }
  return { root: level[0]!, depth }
}

const leavesOf = (count: number): string[] => Array.from({ length: count }, (_, index) => sha256Hex(`record ${index}`))

describe('session tree', () => {
  it('agrees with the level-by-level definition at every size', () => {
    const tree = createSessionTree()
    const leaves: string[] = []
    expect(tree.summary()).toEqual({ ...naiveTree([]), leafCount: 0 })
    for (const leaf of leavesOf(260)) {
      leaves.push(leaf)
      tree.add(leaf)
      expect(tree.summary()).toEqual({ ...naiveTree(leaves), leafCount: leaves.length })
    }
  })

  it('counts levels as depth', () => {
    const depths = [0, 1, 2, 3, 4, 5, 8, 9].map((count) => sessionTree(leavesOf(count)).depth)
    expect(depths).toEqual([0, 1, 2, 3, 3, 4, 4, 5])
  })

  it('has fixed roots for the edge cases', () => {
    const [first, second] = leavesOf(2) as [string, string]
    expect(sessionTree([]).root).toBe('e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855')
    expect(sessionTree([first]).root).toBe(first)
    expect(sessionTree([first, second]).root).toBe(sha256Hex(Buffer.from(first + second, 'hex')))
  })

  it('commits to the order of the leaves', () => {
    fc.assert(
      fc.property(fc.integer({ min: 2, max: 64 }), fc.nat(), fc.nat(), (count, one, other) => {
        const leaves = leavesOf(count)
        const [a, b] = [one % count, other % count]
        fc.pre(a !== b)
        const swapped = leaves.with(a, leaves[b]!).with(b, leaves[a]!)
        expect(sessionTree(swapped).root).not.toBe(sessionTree(leaves).root)
      }),
    )
  })

  it('refuses what is not a SHA-256 in lower-case hex', () => {
    expect(() => sessionTree(['ab'])).toThrow(AppError)
    expect(() => sessionTree([sha256Hex('x').toUpperCase()])).toThrow(AppError)
  })

  it('takes a hundred thousand leaves', () => {
    expect(sessionTree(leavesOf(100_000))).toMatchObject({ leafCount: 100_000, depth: 18 })
  })
})
