import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import type { Json, JsonObject } from '../../kernel/canonical-json.ts'
import { counted } from '../../kernel/counted.ts'
import { type Context, renderTemplate } from '../templating/templates.ts'
import { createMeter } from '../templating/work-meter.ts'
import { hasFailed, isEndOfSuccess, judgeCondition, type StateResult, scoreOf } from './conditions.ts'
import { knownNames, refuseMissing } from './known-names.ts'
import type { State, Storage, WorkflowManifest } from './manifest-schema.ts'
import { renderOutput } from './render-output.ts'
import { resultView } from './state-shapes.ts'
import { fieldOf } from './state-texts.ts'

/**
 * Decides the next state of a run. It is pure: no clock, no store, no side effects. The same manifest, start and results always
 * lead to the same end.
 */
export type Start = Readonly<{
  tenant: string
  intent: string | null
  input: Json
  attachments: Json
  /** The blackboard values of the caller. */
  overrides: JsonObject
  /** A name without a value is a failure. Runs of earlier versions lack this field and treat it as empty text. */
  names?: 'strict'
}>

export type Position = Readonly<{
  state: string
  /** The number of states entered so far, including this one. It names the steps of this visit. */
  entered: number
  visits: ReadonlyMap<string, number>
  /** The feedback of the transition that led here. */
  feedback: string
  blackboard: JsonObject
  isStrict: boolean
}>

export type Failure = Readonly<{ message: string; violation: string; details: JsonObject }>
export type Move =
  | Readonly<{ kind: 'go'; position: Position; condition: string; target: string }>
  | Readonly<{
      kind: 'end'
      blackboard: JsonObject
      output: Json
      /** Undefined if the run completed. */
      failure: Failure | undefined
      /** How the output violates the schema of the workflow. */
      violations: readonly string[]
    }>

/** Storage for templates, in the manifest's field names. */
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
    isStrict: start.names === 'strict',
  }
}

/** The names that templates of a state may use. */
export function contextOf(manifest: WorkflowManifest, { state, feedback, visits, blackboard }: Position): Context {
  const names = namesOn(manifest, blackboard)
  return { state: { name: state, feedback, visit: visits.get(state) ?? 1 }, ...names, blackboard: names }
}

/** `workflow.x` is the older name of `input.x`. Results are in the form that templates see. */
function namesOn({ states }: WorkflowManifest, blackboard: JsonObject): JsonObject {
  const { input, workflow } = blackboard
  const supplied = typeof input === 'object' && input !== null && !Array.isArray(input) ? (input as JsonObject) : {}
  const results = [...states].flatMap(([name, state]) => {
    const result = blackboard[name]
    return typeof result === 'object' && result !== null ? [[name, resultView(state, result as StateResult)]] : []
  })
  return {
    ...blackboard,
    workflow: { ...supplied, ...(workflow as JsonObject | undefined) },
    ...Object.fromEntries(results),
  }
}

/** The names that conditions and feedback may use: those of the state, and its result. */
function contextAfter(
  manifest: WorkflowManifest,
  position: Position,
  left: StateResult,
  blackboard: JsonObject,
): Context {
  const { state, feedback, visits } = position
  const result = resultView(manifest.states.get(state)!, left)
  const names = namesOn(manifest, blackboard)
  const score = scoreOf(result)
  return {
    state: { name: state, feedback, visit: visits.get(state) ?? 1, ...result },
    ...names,
    blackboard: names,
    result,
    state_output: result,
    status: result['status'] ?? null,
    ...(result['output'] !== undefined && { output: result['output'] }),
    ...(result['response'] !== undefined && { response: result['response'] }),
    ...(score !== undefined && { score }),
  }
}

/** `writes` go onto the blackboard beside the result: the values of update_blackboard and of sub-workflows. */
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
    const message = `The blackboard has ${size} characters after the state ${position.state}; at most ${limits.workflowBlackboardCharsMax} are allowed. Print less in the states, or write to files.`
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

/** Takes the first transition whose condition holds. Throws an AppError for a text that cannot be evaluated within its bounds. */
function leave(manifest: WorkflowManifest, position: Position, result: StateResult, blackboard: JsonObject): Move {
  const state = manifest.states.get(position.state)!
  const context = contextAfter(manifest, position, result, blackboard)
  const known = position.isStrict ? knownNames(manifest, position.state, 'after') : undefined
  const meter = createMeter()
  const problems: string[] = []
  for (const [index, { condition, target, feedback }] of state.transitions.entries()) {
    const field = fieldOf(position.state, `transitions[${index}]`)
    const judged = judgeCondition(condition, result, context, { field: `${field}.expression`, meter })
    if (known !== undefined && judged.missing !== undefined && !hasFailed(result)) throw noName(field, judged.missing)
    if (judged.problem !== null) problems.push(judged.problem)
    if (!judged.holds) continue
    const at = `${field}.feedback`
    const missing = known && refuseMissing(known, context, at)
    const text = renderTemplate(feedback ?? '', context, { field: at, meter, missing })
    return enter(manifest, position, blackboard, { target, condition: condition.type, feedback: text })
  }
  if (isEndOfSuccess(state) && !hasFailed(result)) return endIn(manifest, position, result, blackboard)
  return failed(blackboard, noMatch(position, state, result, problems))
}

/** A failed state has left no values, so missing names are expected there; after a success a missing name is an error. */
const noName = (field: string, name: string): AppError =>
  new AppError(
    'ERR_TEMPLATE_INVALID',
    `${field}.expression: there is no ${name.slice(0, 128)} in the result of the state; guard it with has(…) if it may be absent.`,
    { field: `${field}.expression`, name },
  )

/** The latest answer of a person, in whichever state it was given. */
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
    const message = `The state ${target} was entered ${counted(maxVisits, 'time')}, which is its max_state_visits.`
    return failed(blackboard, {
      message,
      violation: 'WorkflowStateVisitLimitExceeded',
      details: { state: target, max_state_visits: maxVisits },
    })
  }
  // Each entered state was left by one transition, so `entered` is also the number of this transition.
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
    isStrict: from.isStrict,
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
  const context = contextOf(manifest, { ...position, blackboard })
  const { output, violations } = renderOutput(manifest, result, context, position.isStrict)
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

/** Shortened, but long enough to see what was wrong. */
function brief(result: StateResult): JsonObject {
  const text = JSON.stringify(result)
  return text.length <= 2000 ? result : { shortened: text.slice(0, 2000).toWellFormed() }
}
