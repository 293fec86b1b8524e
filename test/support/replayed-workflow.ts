import {
  applyResult,
  type Finished,
  type Move,
  type Position,
  type Start,
  startOf,
} from '../../src/domains/workflows/interpreter.ts'
import type { WorkflowManifest } from '../../src/domains/workflows/manifest-schema.ts'

/** The position of a run after these results, or how it ended. */
export function replay(manifest: WorkflowManifest, start: Start, results: readonly Finished[]): Position | Move {
  let position = startOf(manifest, start)
  for (const finished of results) {
    const move = applyResult(manifest, position, finished)
    if (move.kind === 'end') return move
    position = move.position
  }
  return position
}
