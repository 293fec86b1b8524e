import { hash } from 'node:crypto'
import { AppError } from '../contract/app-error.ts'

/**
 * The tree of the audit tools (`merkle_root`, `merkle_finalize`). Unlike the log's own tree it has no domain separation:
 * a leaf is the record hash itself, an inner node is SHA-256 over the 64 raw bytes of its children, left then right, and
 * a node without a partner moves up unchanged. Leaves keep the order of the log.
 *
 * Depth counts levels: 0 without leaves, 1 for one leaf, 4 for eight (⌈log2 n⌉ + 1). The root without leaves is SHA-256
 * of nothing; the root of one leaf is that leaf.
 */
type SessionTreeSummary = Readonly<{ root: string; depth: number; leafCount: number }>

type SessionTreeBuilder = Readonly<{
  /** Takes a record hash, 64 lower-case hex digits; costs one hash on average. */
  add(leaf: string): void
  /** The tree over all leaves so far; more may be added afterwards. Costs at most log2 n hashes. */
  summary(): SessionTreeSummary
}>

const LEAF_PATTERN = /^[0-9a-f]{64}$/

export function createSessionTree(): SessionTreeBuilder {
  // Index = level: the perfect subtree that waits for its right-hand neighbour, as a binary string.
  const waiting: (string | undefined)[] = []
  const pair = Buffer.alloc(64)
  let leafCount = 0

  const join = (left: string, right: string): string => {
    pair.write(left, 0, 'binary')
    pair.write(right, 32, 'binary')
    return hash('sha256', pair, 'binary')
  }

  return {
    add(leaf) {
      if (!LEAF_PATTERN.test(leaf)) {
        throw new AppError('ERR_LOG_INVALID', `Record ${leafCount} of the session has no valid SHA-256 hash.`, {
          rule: 'session-leaf',
          position: leafCount,
        })
      }
      let node = Buffer.from(leaf, 'hex').toString('binary')
      let level = 0
      for (let left = waiting[0]; left !== undefined; left = waiting[level]) {
        node = join(left, node)
        waiting[level++] = undefined
      }
      waiting[level] = node
      leafCount++
    },
    summary() {
      if (leafCount === 0) return { root: hash('sha256', '', 'hex'), depth: 0, leafCount }
      let root: string | undefined
      for (const left of waiting) {
        if (left !== undefined) root = root === undefined ? left : join(left, root)
      }
      let depth = 1
      for (let width = 1; width < leafCount; width *= 2) depth++
      return { root: Buffer.from(root!, 'binary').toString('hex'), depth, leafCount }
    },
  }
}
