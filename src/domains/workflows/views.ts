import { workflowEventName } from '../../contract/event-names.ts'
import { limits } from '../../contract/limits.ts'
import type { Run, RunEvent } from '../../engine/ports.ts'
import type { Json, JsonObject } from '../../kernel/canonical-json.ts'
import { isoTime } from '../../kernel/clock.ts'
import { applyResult, type Position } from './interpreter.ts'
import type { WorkflowManifest } from './manifest-schema.ts'
import type { WorkflowVersion } from './ports.ts'
import { type Exit, openRun } from './run-record.ts'

export const statusView = (run: Run) => ({
  execution_id: run.id,
  workflow_id: run.subjectId,
  status: run.status,
  current_state: run.state,
  started_at: isoTime(run.startedAtMs),
  last_transition_at: isoTime(run.changedAtMs),
})

export const listView = (run: Run) => ({
  ...statusView(run),
  workflow_name: run.subjectName,
  version: run.subjectVersion,
})

export const workflowView = ({ id, name, version, initialState, scope, description, labels }: WorkflowVersion) => ({
  id,
  name,
  version,
  initial_state: initialState,
  scope,
  description,
  labels,
})

/** A schedule that the manifest suggests and that is not in force. */
export const suggestionOf = ({ defaultSchedule: timing }: Pick<WorkflowManifest, 'defaultSchedule'>) =>
  timing === null || timing.enabled || timing.type !== 'cron'
    ? null
    : { cron: timing.cron, timezone: timing.timezone, jitter_seconds: timing.jitterMs / 1_000 }

export const eventView = ({ sequence, type, state, iteration, payload, atMs }: RunEvent) => ({
  sequence,
  ...workflowEventName(type),
  state_name: state,
  iteration_number: iteration,
  payload: displayedPayload(payload),
  recorded_at: isoTime(atMs),
})

/** The whole payload if it is small, otherwise its beginning. */
function displayedPayload(payload: Json): JsonObject {
  const text = JSON.stringify(payload)
  if (text.length > limits.runEventBytesMax) {
    return { shortened: text.slice(0, limits.runEventBytesMax).toWellFormed(), characters: text.length }
  }
  return typeof payload === 'object' && payload !== null && !Array.isArray(payload)
    ? (payload as JsonObject)
    : { value: payload }
}

/** The results of a run's states, which only its journal holds. */
export function replayRun(
  run: Run,
  exits: readonly Exit[],
): Readonly<{ blackboard: JsonObject; stateOutputs: JsonObject; manifest: WorkflowManifest; position: Position }> {
  const opened = openRun(run)
  const { manifest } = opened
  let { position } = opened
  let { blackboard } = position
  const stateOutputs: Record<string, Json> = {}
  for (const exit of exits) {
    stateOutputs[exit.state] = exit.result
    const move = applyResult(manifest, position, exit)
    blackboard = move.kind === 'end' ? move.blackboard : move.position.blackboard
    if (move.kind === 'end') break
    position = move.position
  }
  return { blackboard, stateOutputs, manifest, position }
}

/** Bounds an answer: if it is too large, long texts are cut. */
export function bounded(value: JsonObject, charsMax = 2_000_000): JsonObject {
  if (JSON.stringify(value).length <= charsMax) return value
  for (const textMax of [100_000, 10_000, 1_000]) {
    const cut = shorten(value, textMax) as JsonObject
    if (JSON.stringify(cut).length <= charsMax) return cut
  }
  return { shortened: JSON.stringify(value).slice(0, charsMax).toWellFormed() }
}

function shorten(value: Json, textMax: number): Json {
  if (typeof value === 'string') {
    return value.length <= textMax ? value : `${value.slice(0, textMax).toWellFormed()}… (${value.length} characters)`
  }
  if (Array.isArray(value)) return value.map((item) => shorten(item as Json, textMax))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value as JsonObject).map(([key, member]) => [key, shorten(member ?? null, textMax)]),
  )
}
