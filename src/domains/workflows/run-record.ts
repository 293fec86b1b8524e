import type { Run } from '../../engine/ports.ts'
import type { JsonObject } from '../../kernel/canonical-json.ts'
import { type Position, startOf } from './interpreter.ts'
import { readStoredManifest, type WorkflowManifest } from './manifest.ts'
import type { WorkflowInput } from './run-ports.ts'

/** The record of a state's exit: all that the interpreter needs to continue. */
export type Exit = Readonly<{ state: string; kind: string; result: JsonObject; writes: JsonObject }>
export const exitKey = (entered: number): string => `${entered}/exit`

/** The input of a run, for the interpreter. */
export function openRun(run: Run): Readonly<{ manifest: WorkflowManifest; position: Position; input: WorkflowInput }> {
  const input = run.input as unknown as WorkflowInput
  const { manifest } = readStoredManifest(input.manifest)
  return { manifest, position: startOf(manifest, { tenant: run.tenant, ...input.start }), input }
}
