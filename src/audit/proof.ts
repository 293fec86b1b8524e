import { AppError } from '../contract/app-error.ts'
import { emptyRoot, HASH_BYTES, innerHash } from './tree.ts'

/**
 * Inclusion and consistency proofs of RFC 9162 §2.1.3 and §2.1.4.
 * A proof is first planned (which stored nodes it needs) and then assembled, so that a store can fetch all nodes at once.
 */

/** The perfect subtree over entries `index * 2^level` up to (not including) `(index + 1) * 2^level`. */
export type NodeCoordinate = Readonly<{ level: number; index: number }>

/** One element per proof hash: the subtrees, left to right, whose hashes fold into it. */
export type ProofPlan = readonly (readonly NodeCoordinate[])[]

/** Where the stores hold a node: in the row of the entry that completes it, at a byte offset in `nodes`. */
export const nodeLocation = ({ level, index }: NodeCoordinate): { seq: number; offset: number } => ({
  seq: (index + 1) * 2 ** level - 1,
  offset: level * HASH_BYTES,
})

/** Every node the plan needs, each once, for a single query. */
export function plannedNodes(plan: ProofPlan): NodeCoordinate[] {
  const nodes = new Map<string, NodeCoordinate>()
  for (const node of plan.flat()) nodes.set(`${node.level}/${node.index}`, node)
  return [...nodes.values()]
}

/** The perfect subtrees of a tree of that size, largest first; folding them gives its root. */
export const peakNodes = (size: number): NodeCoordinate[] => rangeNodes(0, assertSize(size, 'size'))

export function planInclusion(index: number, size: number): ProofPlan {
  assertSize(size, 'size')
  if (!Number.isSafeInteger(index) || index < 0 || index >= size) {
    throw new AppError('ERR_INVALID_INPUT', `index must be a whole number from 0 to ${size - 1}, not ${index}.`, {
      field: 'index',
      size,
    })
  }
  const plan: NodeCoordinate[][] = []
  let start = 0
  let end = size
  while (end - start > 1) {
    const split = start + largestPowerBelow(end - start)
    if (index < split) {
      plan.push(rangeNodes(split, end))
      end = split
    } else {
      plan.push(rangeNodes(start, split))
      start = split
    }
  }
  return plan.reverse()
}

export function planConsistency(oldSize: number, newSize: number): ProofPlan {
  assertSize(newSize, 'new_size')
  if (assertSize(oldSize, 'old_size') > newSize) {
    throw new AppError('ERR_INVALID_INPUT', `old_size (${oldSize}) must not be larger than new_size (${newSize}).`, {
      field: 'old_size',
      size: newSize,
    })
  }
  if (oldSize === 0 || oldSize === newSize) return []
  const plan: NodeCoordinate[][] = []
  let start = 0
  let end = newSize
  while (end !== oldSize) {
    const split = start + largestPowerBelow(end - start)
    if (oldSize <= split) {
      plan.push(rangeNodes(split, end))
      end = split
    } else {
      plan.push(rangeNodes(start, split))
      start = split
    }
  }
  // The verifier has the old root; it needs the last subtree only if that is not the whole old tree.
  if (start !== 0) plan.push(rangeNodes(start, end))
  return plan.reverse()
}

/** Folds fetched nodes into the hashes of the proof. */
export const assembleProof = (plan: ProofPlan, readNode: (level: number, index: number) => Buffer): Buffer[] =>
  plan.map((nodes) => foldNodes(nodes.map((node) => readNode(node.level, node.index))))

type InclusionClaim = Readonly<{
  index: number
  size: number
  leaf: Buffer
  proof: readonly Buffer[]
  root: Buffer
}>

/** True only when the proof shows that `leaf` is entry `index` of the tree with that size and root. */
export function verifyInclusion({ index, size, leaf, proof, root }: InclusionClaim): boolean {
  if (!isSize(size) || !isSize(index) || index >= size) return false
  if (!areHashes([leaf, root, ...proof])) return false
  let node = index
  let last = size - 1
  let computed = leaf
  for (const sibling of proof) {
    if (last === 0) return false
    if (node % 2 === 1 || node === last) {
      computed = innerHash(sibling, computed)
      while (node % 2 === 0 && node !== 0) {
        node = half(node)
        last = half(last)
      }
    } else {
      computed = innerHash(computed, sibling)
    }
    node = half(node)
    last = half(last)
  }
  return last === 0 && computed.equals(root)
}

type ConsistencyClaim = Readonly<{
  oldSize: number
  newSize: number
  oldRoot: Buffer
  newRoot: Buffer
  proof: readonly Buffer[]
}>

/**
 * True only when the old tree is a prefix of the new one. The empty tree is a prefix of every tree: its proof is empty
 * and its root must be the empty root.
 */
export function verifyConsistency({ oldSize, newSize, oldRoot, newRoot, proof }: ConsistencyClaim): boolean {
  if (!isSize(oldSize) || !isSize(newSize) || oldSize > newSize) return false
  if (!areHashes([oldRoot, newRoot, ...proof])) return false
  if (newSize === 0 && !newRoot.equals(emptyRoot())) return false
  if (oldSize === newSize) return proof.length === 0 && oldRoot.equals(newRoot)
  if (oldSize === 0) return proof.length === 0 && oldRoot.equals(emptyRoot())
  const path = isPowerOfTwo(oldSize) ? [oldRoot, ...proof] : proof
  const first = path[0]
  if (first === undefined || proof.length === 0) return false
  let node = oldSize - 1
  let last = newSize - 1
  while (node % 2 === 1) {
    node = half(node)
    last = half(last)
  }
  let computedOld = first
  let computedNew = first
  for (const sibling of path.slice(1)) {
    if (last === 0) return false
    if (node % 2 === 1 || node === last) {
      computedOld = innerHash(sibling, computedOld)
      computedNew = innerHash(sibling, computedNew)
      while (node % 2 === 0 && node !== 0) {
        node = half(node)
        last = half(last)
      }
    } else {
      computedNew = innerHash(computedNew, sibling)
    }
    node = half(node)
    last = half(last)
  }
  return last === 0 && computedOld.equals(oldRoot) && computedNew.equals(newRoot)
}

function foldNodes(hashes: readonly Buffer[]): Buffer {
  if (!areHashes(hashes)) {
    throw new AppError('ERR_LOG_INVALID', 'A stored tree node is not 32 bytes long. Run castellan verify.', {
      rule: 'node',
    })
  }
  return hashes.reduceRight((right, left) => innerHash(left, right))
}

/** Splits a range of the RFC 9162 tree into perfect subtrees. `start` is a multiple of the largest one. */
function rangeNodes(start: number, end: number): NodeCoordinate[] {
  const nodes: NodeCoordinate[] = []
  let at = start
  while (at < end) {
    const level = Math.floor(Math.log2(end - at))
    // log2 rounds up just below a large power of two.
    const exact = 2 ** level > end - at ? level - 1 : level
    nodes.push({ level: exact, index: at / 2 ** exact })
    at += 2 ** exact
  }
  return nodes
}

function largestPowerBelow(value: number): number {
  let power = 1
  while (power * 2 < value) power *= 2
  return power
}

const half = (value: number): number => Math.floor(value / 2)
const isPowerOfTwo = (value: number): boolean => 2 ** Math.round(Math.log2(value)) === value
const isSize = (value: number): boolean => Number.isSafeInteger(value) && value >= 0
const areHashes = (hashes: readonly Buffer[]): boolean => hashes.every((hash) => hash.length === HASH_BYTES)

function assertSize(size: number, field: string): number {
  if (!isSize(size)) {
    throw new AppError('ERR_INVALID_INPUT', `${field} must be a whole number, 0 or more, not ${size}.`, { field })
  }
  return size
}
