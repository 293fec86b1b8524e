import { AppError } from '../../contract/app-error.ts'
import type { NewRun } from '../../engine/ports.ts'
import type { Json, JsonObject } from '../../kernel/canonical-json.ts'
import { withDefaults } from '../manifests/schema-defaults.ts'
import { violationsOf } from '../manifests/schema-violations.ts'
import type { ResolvedWorkflow } from './registry.ts'
import type { WorkflowInput } from './run-ports.ts'

export type RunRequest = Readonly<{
  intent: string | null
  input: JsonObject
  /** Initial blackboard values. */
  overrides: JsonObject
  spawnDepth: number
}>

/** Names that a run sets itself. */
const refusedOverrides = [
  'instruction',
  'input',
  'intent',
  'iteration_number',
  'previous_error',
  'context',
  'workflow',
  'blackboard',
  'tenant_id',
  'attachments',
]

/** Prepares a run of the current version. Refuses an input that does not conform, and overrides of reserved names. */
export function newWorkflowRun({ version, manifest }: ResolvedWorkflow, request: RunRequest): NewRun {
  const { intent, overrides, spawnDepth } = request
  const input = withDefaults(manifest.inputSchema, request.input)
  const refused = Object.keys(overrides).find((key) => refusedOverrides.includes(key) || manifest.states.has(key))
  if (refused !== undefined) {
    throw new AppError(
      'ERR_INVALID_INPUT',
      `blackboard.${refused}: this name is reserved; choose another. Reserved are ${refusedOverrides.join(', ')} and the names of states.`,
      { field: `blackboard.${refused}` },
    )
  }
  const violations = manifest.inputSchema === null ? [] : violationsOf(manifest.inputSchema, input)
  if (violations.length > 0) {
    throw new AppError(
      'ERR_INVALID_INPUT',
      `input: does not conform to the workflow's input_schema: ${violations[0]}`,
      {
        field: 'input',
        violations,
      },
    )
  }
  const pinned: WorkflowInput = {
    manifest: version.manifestText,
    start: { intent, input, attachments: input['attachments'] ?? [], overrides, names: 'strict' },
    generation: spawnDepth,
  }
  return {
    kind: 'workflow',
    subjectId: version.id,
    subjectName: version.name,
    subjectVersion: version.version,
    input: pinned as unknown as Json,
    payload: { workflow_id: version.id, name: version.name, version: version.version },
  }
}
