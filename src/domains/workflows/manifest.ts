import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import { newSchemaBudget, type SchemaBudget } from '../agents/schema-work.ts'
import { checkGraph } from './check-graph.ts'
import { checkAnswers, checkNames } from './check-names.ts'
import { checkTemplate } from './check-texts.ts'
import { workspaceNames } from './container-volumes.ts'
import { schemaProblem } from './json-schema.ts'
import type { JsonObject, State, Storage, StorageClass, WorkflowManifest } from './manifest-types.ts'
import { createFindings, type Fields, type Findings, openFields, quoted } from './read-fields.ts'
import { readSchedule } from './read-schedule.ts'
import { readState, reservedKeys, warnOfHidden } from './read-states.ts'
import { readTransitions } from './read-transitions.ts'
import { readVersion } from './read-version.ts'
import { parseYaml } from './yaml-text.ts'

export type { WorkflowManifest } from './manifest-types.ts'

export const API_VERSION = '100monkeys.ai/v1'
export type CheckedManifest = Readonly<{
  /** Absent when there are errors. */
  manifest: WorkflowManifest | undefined
  errors: readonly string[]
  warnings: readonly string[]
}>

/**
 * Reads and checks a manifest that somebody wants to register; whatever is wrong with it is in `errors`, one sentence each, with
 * the field in front.
 */
export const checkWorkflowManifest = (text: string): CheckedManifest => check(text, true)

function check(text: string, isNew: boolean): CheckedManifest {
  const findings = createFindings()
  const manifest = readManifest(findings, text)
  const { errors, warnings } = findings
  if (isNew && manifest !== undefined && errors.length === 0) {
    checkNames(findings, manifest)
    checkAnswers(findings, manifest)
  }
  return { manifest: errors.length === 0 ? manifest : undefined, errors, warnings }
}

type Parsed = Readonly<{ manifest: WorkflowManifest; warnings: readonly string[] }>

/** Of one that somebody wants to register. Throws when it cannot be. */
export const parseWorkflowManifest = (text: string): Parsed => parsed(check(text, true))

/** Of one that is registered, or that a run was started with: rules that came later do not undo it. */
export const readStoredManifest = (text: string): Parsed => parsed(check(text, false))

function parsed({ manifest, errors, warnings }: CheckedManifest): Parsed {
  if (manifest !== undefined) return { manifest, warnings }
  throw new AppError(
    'ERR_MANIFEST_INVALID',
    `manifest_yaml: ${errors[0] ?? 'is not a workflow'}${errors.length > 1 ? ` (and ${errors.length - 1} more in the details)` : ''}`,
    { field: 'manifest_yaml', errors, warnings },
  )
}

function readManifest(findings: Findings, text: string): WorkflowManifest | undefined {
  const root = parseYaml(findings, text)
  if (root === undefined) return undefined
  const fields = openFields(findings, 'manifest', root, {
    known: ['apiVersion', 'kind', 'metadata', 'spec'],
    renamed: { api_version: 'apiVersion' },
  })
  if (fields === undefined) return undefined
  readKind(fields)
  const metadata = openFields(findings, 'metadata', fields.raw('metadata') ?? {}, {
    known: [
      'name',
      'version',
      'description',
      'labels',
      'annotations',
      'input_schema',
      'output_schema',
      'output_template',
      'tags',
    ],
  })
  const spec = openFields(findings, 'spec', fields.raw('spec') ?? {}, {
    known: ['initial_state', 'states', 'context', 'max_total_transitions', 'storage', 'default_schedule', 'volumes'],
    renamed: {
      start_state: 'initial_state',
      initial: 'initial_state',
      schedule: 'default_schedule',
      max_transitions: 'max_total_transitions',
    },
  })
  if (metadata === undefined || spec === undefined) return undefined
  const head = readMetadata(metadata)
  const initialState = spec.text('initial_state', { required: true, max: 64 })
  const states = readStates(spec)
  checkGraph(findings, initialState, states)
  const body = {
    initialState: initialState ?? '',
    states,
    context: readContext(spec, states),
    maxTotalTransitions: spec.number('max_total_transitions', { integer: true, min: 1, max: 100 }) ?? 50,
    storage: readStorage(spec),
    defaultSchedule: readSchedule(spec, head?.inputSchema ?? null),
  }
  checkVolumes(findings, body.storage, states)
  checkWrites(findings, states)
  return head === undefined ? undefined : { ...head, ...body }
}

function readKind(fields: Fields): void {
  const apiVersion = fields.text('apiVersion', { required: true })
  if (apiVersion !== undefined && apiVersion !== API_VERSION) fields.error('apiVersion', `must be ${API_VERSION}`)
  const kind = fields.text('kind', { required: true })
  if (kind === undefined || kind === 'Workflow') return
  if (/^workflow(manifest)?$/i.test(kind)) fields.warn('kind', 'is an old spelling; write Workflow')
  else fields.error('kind', `${quoted(kind)} is not a workflow; write Workflow, or use the tools for agents`)
}

const NAME = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/

function readMetadata(fields: Fields) {
  const name = fields.text('name', { required: true })
  if (name !== undefined && !NAME.test(name)) {
    fields.error('name', 'must be 1 to 63 of a–z, 0–9 and "-", with a letter or digit at both ends')
  }
  const version = readVersion(fields)
  const budget = newSchemaBudget()
  const schemas = {
    inputSchema: readSchema(fields, 'input_schema', budget),
    outputSchema: readSchema(fields, 'output_schema', budget),
    outputTemplate: (fields.json('output_template') as JsonObject | undefined) ?? null,
  }
  if (schemas.outputTemplate !== null) checkLeaves(fields, 'output_template', schemas.outputTemplate, 0)
  if (name === undefined) return undefined
  return {
    name,
    version,
    description: fields.text('description', { blank: true, max: 10_000 }) ?? '',
    labels: fields.texts('labels') ?? {},
    annotations: fields.texts('annotations') ?? {},
    ...schemas,
  }
}

function readSchema(fields: Fields, key: string, budget: SchemaBudget): JsonObject | null {
  const schema = fields.json(key)
  if (schema === undefined) return null
  const problem = schemaProblem(schema, budget)
  if (problem !== null) fields.error(key, `is not a JSON Schema: ${problem}`)
  return schema
}

function checkLeaves(fields: Fields, at: string, value: unknown, depth: number): void {
  if (depth > 16) fields.error(at, 'is nested too deeply; at most 16 levels')
  else if (typeof value === 'string') checkTemplate(fields, at, value)
  else if (typeof value === 'object' && value !== null) {
    for (const [key, member] of Object.entries(value))
      checkLeaves(fields, `${at}.${key.slice(0, 64)}`, member, depth + 1)
  }
}

function readStates(spec: Fields): ReadonlyMap<string, State> {
  const input = spec.raw('states')
  const entries = stateEntries(spec, input)
  if (entries.length === 0 && input !== undefined) spec.error('states', 'must have at least one state')
  if (input === undefined) spec.error('states', 'is required; it maps names to states')
  if (entries.length > limits.workflowStatesMax) {
    spec.error('states', `must be at most ${limits.workflowStatesMax} states`)
    return new Map()
  }
  const states = new Map<string, State>()
  for (const [name, value] of entries) {
    states.set(name, readState(spec.findings, name, value) ?? standIn(value))
  }
  return states
}

/** For a state that is refused: its name and its transitions are still checked, and the manifest goes no further. */
function standIn(value: unknown): State {
  const { transitions } = (typeof value === 'object' && value !== null ? value : {}) as Record<string, unknown>
  return {
    kind: 'System',
    command: '',
    env: {},
    workdir: null,
    timeoutMs: null,
    maxVisits: 1,
    transitions: readTransitions(createFindings(), '', transitions),
  }
}

function stateEntries(spec: Fields, input: unknown): readonly (readonly [string, unknown])[] {
  if (!Array.isArray(input)) return typeof input === 'object' && input !== null ? Object.entries(input) : []
  spec.warn('states', 'is a list; write a map from the name of each state to its fields')
  return input.map((item, index) => {
    const { name, ...rest } = (typeof item === 'object' && item !== null ? item : {}) as Record<string, unknown>
    return [typeof name === 'string' ? name : `state_${index + 1}`, rest] as const
  })
}

function readContext(spec: Fields, states: ReadonlyMap<string, State>): JsonObject {
  const context = spec.json('context') ?? {}
  for (const key of Object.keys(context)) {
    if (reservedKeys.includes(key)) spec.error(`context.${key}`, 'is one of the run’s own names; choose another')
    else if (states.has(key)) spec.warn(`context.${key}`, 'is replaced by the result of the state of that name')
    warnOfHidden(spec.findings, `spec.context.${key.slice(0, 64)}`, key)
  }
  return context
}

const storageClasses: readonly StorageClass[] = ['ephemeral', 'persistent']

function readStorage(spec: Fields): Storage {
  const storage = spec.map('storage', { known: ['workspace', 'shared_volumes'] })
  const workspace = storage?.map('workspace', {
    known: ['storage_class', 'ttl_hours', 'size_limit_mb', 'volume_id', 'blackboard_key'],
  })
  const blackboardKey = workspace?.text('blackboard_key', { max: 64 }) ?? 'workspace_volume_id'
  if (reservedKeys.includes(blackboardKey))
    workspace?.error('blackboard_key', 'is one of the run’s own names; choose another')
  const [storageClass, volumeId] = [
    workspace?.choice('storage_class', storageClasses) ?? 'ephemeral',
    workspace?.text('volume_id', { max: 128 }) ?? null,
  ]
  const ttlHours = workspace?.number('ttl_hours', { min: 0.001, max: 8784 }) ?? null
  if (ttlHours !== null && (storageClass === 'persistent' || volumeId !== null)) {
    workspace?.error('ttl_hours', 'belongs to ephemeral workspaces that the run makes itself; leave it out')
  }
  const shared = [...(storage?.list('shared_volumes') ?? [])]
  // What the volumes of old call so is the workspace of the run.
  let isRetained = storageClass === 'persistent'
  for (const old of spec.list('volumes') ?? []) {
    spec.warn('volumes', 'is an old spelling; write storage.shared_volumes')
    const { name, persistent } = (typeof old === 'object' && old !== null ? old : { name: old }) as Record<
      string,
      unknown
    >
    if (name === 'workspace') isRetained ||= persistent === true
    else shared.push({ name, storage_class: persistent === true ? 'persistent' : 'ephemeral' })
  }
  return {
    isDeclared: spec.raw('storage') !== undefined,
    workspace: {
      storageClass: isRetained ? 'persistent' : storageClass,
      ttlHours,
      sizeLimitMb: workspace?.number('size_limit_mb', { integer: true, min: 1, max: 1_048_576 }) ?? null,
      volumeId,
      blackboardKey,
    },
    sharedVolumes: shared.flatMap((item, index) => readVolume(spec.findings, index, item)),
  }
}

function readVolume(findings: Findings, index: number, item: unknown): Storage['sharedVolumes'] {
  const at = `spec.storage.shared_volumes[${index}]`
  const fields = openFields(findings, at, typeof item === 'string' ? { name: item } : item, {
    known: ['name', 'storage_class', 'size_limit_bytes'],
  })
  const name = fields?.text('name', { required: true, max: 64 })
  if (fields === undefined || name === undefined) return []
  if (!/^[A-Za-z0-9_][A-Za-z0-9._-]*$/.test(name)) fields.error('name', 'use letters, digits, ".", "_" and "-"')
  const storageClass = fields.choice('storage_class', storageClasses) ?? 'ephemeral'
  return [{ name, storageClass, sizeLimitBytes: fields.number('size_limit_bytes', { integer: true, min: 1 }) ?? null }]
}

/** A volume that nobody declared is a mistake as soon as somebody declares volumes. */
function checkVolumes(findings: Findings, storage: Storage, states: ReadonlyMap<string, State>): void {
  if (storage.sharedVolumes.length === 0) return
  const declared = new Set([...workspaceNames(storage), ...storage.sharedVolumes.map(({ name }) => name)])
  for (const [name, state] of states) {
    const steps =
      state.kind === 'ContainerRun' ? [state.step] : state.kind === 'ParallelContainerRun' ? state.steps : []
    for (const step of steps) {
      for (const volume of step.volumes) {
        if (!declared.has(volume.name)) {
          findings.error(
            `spec.states.${name}.volumes`,
            `the volume ${quoted(volume.name)} is not in spec.storage.shared_volumes`,
          )
        }
      }
    }
  }
}

/** The result of a state is its own; nothing else writes it. */
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
