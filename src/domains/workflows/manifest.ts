import { AppError } from '../../contract/app-error.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import { createFindings, type FindingList, type Findings, quoted } from '../manifests/findings.ts'
import { at, problemOf, readOrErrors } from '../manifests/fit-shape.ts'
import { createParseCache } from '../manifests/parse-cache.ts'
import { fieldText, presentSpelling } from '../manifests/present-spelling.ts'
import { isFields } from '../manifests/read-yaml.ts'
import { withDefaults } from '../manifests/schema-defaults.ts'
import { templateProblem } from '../manifests/schema-keywords.ts'
import { schemaProblem, violationsOf } from '../manifests/schema-violations.ts'
import { newSchemaBudget } from '../manifests/schema-work.ts'
import { checkGraph, checkTargets } from './check-graph.ts'
import { checkAnswers, checkNames } from './check-names.ts'
import { warnOfShellLines } from './check-texts.ts'
import { workspaceNames } from './container-volumes.ts'
import { type ContainerStep, type State, type WorkflowManifest, workflowManifestSchema } from './manifest-schema.ts'
import { scheduledRequest } from './scheduled-request.ts'
import { hidesState, reservedKeys } from './schema-words.ts'
import { securityPathOf } from './security-fields.ts'

export type { WorkflowManifest } from './manifest-schema.ts'

export type CheckedManifest = Readonly<{
  /** Undefined if there are errors. */
  manifest: WorkflowManifest | undefined
  errors: readonly string[]
  warnings: readonly string[]
}>

/**
 * Parses and checks a manifest before it is registered. `errors` lists every problem, one sentence each, with the field first.
 */
export const checkWorkflowManifest = (text: string): CheckedManifest => check(text, true)

const read = createParseCache(
  (text): CheckedManifest => {
    const findings = createFindings()
    const manifest = readManifest(findings, text)
    const { errors, warnings } = findings
    return { manifest: errors.length === 0 ? manifest : undefined, errors, warnings }
  },
  ({ manifest }) => manifest !== undefined,
)

function check(text: string, isNew: boolean): CheckedManifest {
  const known = read(text)
  const { manifest } = known
  if (!isNew || manifest === undefined) return known
  const findings = createFindings(known)
  checkNames(findings, manifest)
  checkAnswers(findings, manifest)
  const { errors, warnings } = findings
  return { manifest: errors.length === 0 ? manifest : undefined, errors, warnings }
}

type Parsed = Readonly<{ manifest: WorkflowManifest; warnings: readonly string[] }>

/** For a manifest that is to be registered. Throws if it cannot be. */
export const parseWorkflowManifest = (text: string): Parsed => parsed(check(text, true))

/** For a stored manifest: rules that were added later do not apply to it. */
export const readStoredManifest = (text: string): Parsed => parsed(check(text, false))

function parsed({ manifest, errors, warnings }: CheckedManifest): Parsed {
  if (manifest !== undefined) return { manifest, warnings }
  throw new AppError(
    'ERR_MANIFEST_INVALID',
    `manifest_yaml: ${errors[0] ?? 'is not a workflow'}${errors.length > 1 ? ` (and ${errors.length - 1} more in the details)` : ''}`,
    { field: 'manifest_yaml', errors, warnings },
  )
}

const textFields = [/^metadata\.(?:version|name)$/]

function readManifest(findings: FindingList, text: string): WorkflowManifest | undefined {
  const read = readOrErrors(text, textFields)
  if ('errors' in read) {
    for (const problem of read.errors) findings.error('manifest', problem)
    return undefined
  }
  for (const field of read.unquoted) findings.warn(field, 'is a string; put it in quotes')
  const { fields, refused, misspelt } = presentSpelling(workflowManifestSchema, read.fields, {
    findings,
    securityPathOf,
  })
  const shaped = workflowManifestSchema.safeParse(fields)
  if (!shaped.success) {
    for (const issue of shaped.error.issues) {
      const field = fieldText(issue.path)
      if (!refused.has(field)) findings.error(field, problemOf(issue, at(fields, issue.path), misspelt.get(field)))
    }
    checkWrittenTargets(findings, fields)
    return undefined
  }
  checkParts(findings, shaped.data)
  return shaped.data
}

/** For a state that is refused, its name and its targets are still checked against the others. */
function checkWrittenTargets(findings: Findings, fields: unknown): void {
  const states = at(fields, ['spec', 'states'])
  const initial = at(fields, ['spec', 'initial_state'])
  if (!isFields(states)) return
  const targetsOf = (state: unknown) => {
    const transitions = at(state, ['transitions'])
    return (Array.isArray(transitions) ? transitions : []).map((one) => ({ target: at(one, ['target']) }))
  }
  checkTargets(
    findings,
    typeof initial === 'string' ? initial : undefined,
    new Map(Object.entries(states).map(([name, state]) => [name, { transitions: targetsOf(state) }])),
  )
}

/** Checks references between the parts of a manifest. */
function checkParts(findings: Findings, manifest: WorkflowManifest): void {
  const { initialState, states } = manifest
  checkTargets(findings, initialState, states)
  checkGraph(findings, initialState, states)
  checkSchemas(findings, manifest)
  checkLeaves(findings, 'metadata.output_template', manifest.outputTemplate, 0)
  checkContext(findings, manifest)
  checkSchedule(findings, manifest)
  checkVolumes(findings, manifest)
  checkWrites(findings, states)
  warnOfShellLines(findings, states)
}

function checkSchemas(findings: Findings, { inputSchema, outputSchema }: WorkflowManifest): void {
  const budget = newSchemaBudget()
  for (const [key, schema] of Object.entries({ input_schema: inputSchema, output_schema: outputSchema })) {
    const problem = schema === null ? null : schemaProblem(schema, budget)
    if (problem !== null) findings.error(`metadata.${key}`, `is not a JSON Schema: ${problem}`)
  }
}

function checkLeaves(findings: Findings, field: string, value: unknown, depth: number): void {
  if (depth > 16) findings.error(field, 'is nested too deeply; at most 16 levels')
  else if (typeof value === 'string') {
    const problem = templateProblem(value)
    if (problem !== undefined) findings.error(field, problem)
  } else if (typeof value === 'object' && value !== null) {
    for (const [key, member] of Object.entries(value)) {
      checkLeaves(findings, `${field}.${key.slice(0, 64)}`, member, depth + 1)
    }
  }
}

function checkContext(findings: Findings, { context, states }: WorkflowManifest): void {
  for (const key of Object.keys(context)) {
    const field = `spec.context.${key.slice(0, 64)}`
    if (reservedKeys.includes(key)) findings.error(field, 'is one of the run’s own names; choose another')
    else if (states.has(key)) findings.warn(field, 'is replaced by the result of the state of that name')
    const hidden = hidesState(key)
    if (hidden !== undefined) findings.warn(field, hidden)
  }
}

/** Refuses a schedule whose runs could never start. A disabled schedule is not refused. */
function checkSchedule(findings: Findings, { defaultSchedule: schedule, inputSchema }: WorkflowManifest): void {
  if (schedule === null || !schedule.enabled || inputSchema === null) return
  const { input } = scheduledRequest(schedule.input)
  const [violation] = violationsOf(inputSchema, withDefaults(inputSchema, input) as Json)
  if (violation === undefined) return
  findings.error(
    'spec.default_schedule.input',
    `does not conform to metadata.input_schema: ${violation}; correct it, or write enabled: false`,
  )
}

const stepsOf = (state: State): readonly ContainerStep[] =>
  state.kind === 'ContainerRun' ? [state.step] : state.kind === 'ParallelContainerRun' ? state.steps : []

/** If the manifest declares volumes, an undeclared one is an error. */
function checkVolumes(findings: Findings, { storage, states }: WorkflowManifest): void {
  if (storage.sharedVolumes.length === 0) return
  const declared = new Set([...workspaceNames(storage), ...storage.sharedVolumes.map(({ name }) => name)])
  for (const [name, state] of states) {
    for (const volume of stepsOf(state).flatMap(({ volumes }) => volumes)) {
      if (declared.has(volume.name)) continue
      findings.error(
        `spec.states.${name}.volumes`,
        `the volume ${quoted(volume.name)} is not in spec.storage.shared_volumes`,
      )
    }
  }
}

/** Only the state itself may write its result. */
function checkWrites(findings: Findings, states: ReadonlyMap<string, State>): void {
  for (const [name, state] of states) {
    if (state.kind === 'System' && state.command.trim() === 'update_blackboard') {
      for (const key of Object.keys(state.env)) {
        if (states.has(key))
          findings.error(`spec.states.${name}.env.${key}`, 'is the name of a state and cannot be written')
      }
    }
    if (state.kind === 'Subworkflow' && state.resultKey !== null && states.has(state.resultKey)) {
      findings.error(`spec.states.${name}.result_key`, 'is the name of a state; choose another')
    }
  }
}
