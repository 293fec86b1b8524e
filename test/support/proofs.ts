import { assembleProof, peakNodes, planConsistency, planInclusion } from '../../src/audit/proof.ts'
import { emptyRoot } from '../../src/audit/tree.ts'

/** Proofs from a tree whose nodes are all in memory. */
export type ReadNode = (level: number, index: number) => Buffer

export const inclusionProof = (index: number, size: number, readNode: ReadNode): Buffer[] =>
  assembleProof(planInclusion(index, size), readNode)

export const consistencyProof = (oldSize: number, newSize: number, readNode: ReadNode): Buffer[] =>
  assembleProof(planConsistency(oldSize, newSize), readNode)

/** The root that the tree had when it held `size` entries. */
export const rootAt = (size: number, readNode: ReadNode): Buffer =>
  size === 0 ? emptyRoot() : assembleProof([peakNodes(size)], readNode)[0]!
