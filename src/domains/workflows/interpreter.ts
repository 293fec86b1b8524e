import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import { type Context, renderTemplate } from '../texts/templates.ts'
import { createMeter } from '../texts/work-meter.ts'
import { hasFailed, judgeCondition, type StateResult, scoreOf } from './conditions.ts'
import type { JsonObject, State, Storage, WorkflowManifest } from './manifest-types.ts'
import { renderOutput } from './render-output.ts'
import { fieldOf } from './state-texts.ts'

/**
 * What happens next in a run, and nothing else: no clock, no store, no effects. The same manifest, the same start and the
 * same results lead to the same end, whoever asks and however often.
 */
export type Start = Readonly<{
  tenant: string
  intent: string | null
  input: Json
  attachments: Json
  /** What the caller put on the blackboard. */
  overrides: JsonObject
}>

export type Position = Readonly<{
  state: string
  /** States entered so far, this one included; it names the steps of this visit. */
  entered: number
  visits: ReadonlyMap<string, number>
  /** What the transition that led here had to say. */
  feedback: string
  blackboard: JsonObject
}>

export type Failure = Readonly<{ message: string; violation: string; details: JsonObject }>
export type Move =
  | Readonly<{ kind: 'go'; position: Position; condition: string; target: string }>
  | Readonly<{
      kind: 'end'
      blackboard: JsonObject
      output: Json
      /** Absent when the run completed. */
      failure: Failure | undefined
      /** What of the output does not conform to the schema of the workflow. */
      violations: readonly string[]
    }>

/** In the words of the manifest, for templates. */
const storageView = ({ workspace, sharedVolumes }: Storage): JsonObject & Json => ({
  workspace: {
    storage_class: workspace.storageClass,
    ttl_hours: workspace.ttlHours,
    size_limit_mb: workspace.sizeLimitMb,
    volume_id: workspace.volumeId,
    blackboard_key: workspace.blackboardKey,
  },
  shared_volumes: sharedVolumes.map(({ name, storageClass, sizeLimitBytes }) => ({
    name,
    storage_class: storageClass,
    size_limit_bytes: sizeLimitBytes,
  })),
})

export function startOf(manifest: WorkflowManifest, start: Start): Position {
  const { name, version, context, storage } = manifest
  const blackboard: JsonObject = {
    ...context,
    ...start.overrides,
    tenant_id: start.tenant,
    intent: start.intent,
    input: start.input,
    attachments: start.attachments,
    workflow: { name, version, context, storage: storageView(storage) },
  }
  return {
    state: manifest.initialState,
    entered: 1,
    visits: new Map([[manifest.initialState, 1]]),
    feedback: '',
    blackboard,
  }
}

/** The names that the texts of a state may use. */
export function contextOf({ state, feedback, visits, blackboard }: Position): Context {
  return {
    state: { name: state, feedback, visit: visits.get(state) ?? 1 },
    ...blackboard,
    blackboard,
  }
}

/** The names that conditions and feedback may use: those of the state, and what it left. */
function contextAfter(position: Position, result: StateResult, blackboard: JsonObject): Context {
  const score = scoreOf(result)
  return {
    state: { name: position.state, feedback: position.feedback, ...result },
    ...blackboard,
    blackboard,
    result,
    status: result['status'] ?? null,
    ...(result['output'] !== undefined && { output: result['output'] }),
    ...(result['response'] !== undefined && { response: result['response'] }),
    ...(score !== undefined && { score }),
  }
}

/** `writes` go onto the blackboard beside the result: what update_blackboard and sub-workflows leave. */
export type Finished = Readonly<{ result: StateResult; writes?: JsonObject }>

export function applyResult(manifest: WorkflowManifest, position: Position, { result, writes }: Finished): Move {
  const state = manifest.states.get(position.state)!
  const blackboard: JsonObject = {
    ...position.blackboard,
    ...writes,
    [position.state]: result,
    ...humanOf(manifest, state, result),
  }
  const size = JSON.stringify(blackboard).length
  if (size > limits.workflowBlackboardCharsMax) {
    const message = `The blackboard has ${size} characters after the state ${position.state}; at most ${limits.workflowBlackboardCharsMax} are kept. Let states print less, or write to files.`
    return failed(position.blackboard, { message, violation: 'BlackboardTooLarge', details: { state: position.state } })
  }
  if (state.transitions.length === 0) return endIn(manifest, position, result, blackboard)
  try {
    return leave(manifest, position, result, blackboard)
  } catch (error) {
    if (!(error instanceof AppError)) throw error
    const details = { state: position.state, ...(error.details as JsonObject) }
    return failed(blackboard, { message: error.message, violation: 'TemplateFailed', details })
  }
}

/** The first transition whose condition holds. Throws an AppError for a text that cannot be evaluated within its bounds. */
function leave(manifest: WorkflowManifest, position: Position, result: StateResult, blackboard: JsonObject): Move {
  const state = manifest.states.get(position.state)!
  const context = contextAfter(position, result, blackboard)
  const meter = createMeter()
  const problems: string[] = []
  for (const [index, { condition, target, feedback }] of state.transitions.entries()) {
    const field = fieldOf(position.state, `transitions[${index}]`)
    const { holds, problem } = judgeCondition(condition, result, context, { field: `${field}.expression`, meter })
    if (problem !== null) problems.push(problem)
    if (!holds) continue
    const text = renderTemplate(feedback ?? '', context, { field: `${field}.feedback`, meter })
    return enter(manifest, position, blackboard, { target, condition: condition.type, feedback: text })
  }
  return failed(blackboard, noMatch(position, state, result, problems))
}

/** The latest answer of a person, wherever it was given. */
const humanOf = ({ states }: WorkflowManifest, state: State, result: StateResult): JsonObject =>
  state.kind === 'Human' && !states.has('human') ? { human: result } : {}

function enter(
  manifest: WorkflowManifest,
  from: Position,
  blackboard: JsonObject,
  { target, feedback, condition }: Readonly<{ target: string; feedback: string; condition: string }>,
): Move {
  const count = (from.visits.get(target) ?? 0) + 1
  const { maxVisits } = manifest.states.get(target)!
  if (count > maxVisits) {
    const message = `The state ${target} was entered ${maxVisits} times, which is its max_state_visits.`
    return failed(blackboard, {
      message,
      violation: 'WorkflowStateVisitLimitExceeded',
      details: { state: target, max_state_visits: maxVisits },
    })
  }
  // As many states were left as were entered, so this is the transition with that number.
  if (from.entered > manifest.maxTotalTransitions) {
    const message = `The run took ${manifest.maxTotalTransitions} transitions, which is its max_total_transitions.`
    return failed(blackboard, {
      message,
      violation: 'WorkflowTransitionLimitExceeded',
      details: { state: from.state, max_total_transitions: manifest.maxTotalTransitions },
    })
  }
  const position: Position = {
    state: target,
    entered: from.entered + 1,
    visits: new Map([...from.visits, [target, count]]),
    feedback,
    blackboard,
  }
  return { kind: 'go', position, condition, target }
}

function endIn(manifest: WorkflowManifest, position: Position, result: StateResult, blackboard: JsonObject): Move {
  if (hasFailed(result)) {
    const reason = typeof result['error'] === 'string' ? ` ${result['error']}` : ''
    return failed(blackboard, {
      message: `The run ended in the state ${position.state}, which failed.${reason}`,
      violation: 'WorkflowStateFailed',
      details: { state: position.state, result: brief(result) },
    })
  }
  const { output, violations } = renderOutput(manifest, result, contextOf({ ...position, blackboard }))
  return { kind: 'end', blackboard, output, failure: undefined, violations }
}

const failed = (blackboard: JsonObject, failure: Failure): Move => ({
  kind: 'end',
  blackboard,
  output: null,
  failure,
  violations: [],
})

function noMatch(
  { state }: Position,
  { transitions }: State,
  result: StateResult,
  problems: readonly string[],
): Failure {
  const tried = transitions.map(({ condition }) => condition.type).join(', ')
  const score = scoreOf(result)
  const facts = [
    `status ${String(result['status'] ?? 'none')}`,
    score === undefined ? 'no score' : `score ${score}`,
    ...problems.slice(0, 3),
  ].join('; ')
  const reason = hasFailed(result) && typeof result['error'] === 'string' ? ` The state failed: ${result['error']}` : ''
  return {
    message: `No transition of the state ${state} matched (${tried}); it had ${facts}.${reason} Add a transition with condition: always or on_failure.`,
    violation: 'WorkflowNoTransitionMatched',
    details: { state, tried: transitions.map(({ condition }) => condition.type), result: brief(result) },
  }
}

/** Enough of a result to see what was wrong. */
function brief(result: StateResult): JsonObject {
  const text = JSON.stringify(result)
  return text.length <= 2000 ? result : { shortened: text.slice(0, 2000).toWellFormed() }
}

/** Where a run is after the results that are recorded, or how it ended. */
export function replay(manifest: WorkflowManifest, start: Start, results: readonly Finished[]): Position | Move {
  let position = startOf(manifest, start)
  for (const finished of results) {
    const move = applyResult(manifest, position, finished)
    if (move.kind === 'end') return move
    position = move.position
  }
  return position
}
