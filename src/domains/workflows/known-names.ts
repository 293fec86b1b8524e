import { AppError } from '../../contract/app-error.ts'
import type { Json, JsonObject } from '../../kernel/canonical-json.ts'
import { nearestName } from '../../kernel/nearest-name.ts'
import type { UsedName } from '../templating/template-names.ts'
import { memberOf, type Value } from '../templating/template-values.ts'
import type { Context, OnMissing } from '../templating/templates.ts'
import type { State, WorkflowManifest } from './manifest-schema.ts'
import { type Member, type Members, members, type Shape, shapeOfState } from './state-shapes.ts'

/** Where a text is used: in a state before it acts, in its output handler or judges, after it, or at the end of the run. */
export type Moment = 'before' | 'handler' | 'judge' | 'after' | 'end'

type Known = Pick<WorkflowManifest, 'states' | 'context' | 'inputSchema' | 'storage'>

/** Every name that a text may use there, with its members. */
export function knownNames(manifest: Known, state: string | null, moment: Moment): Members {
  const { states, context, storage } = manifest
  const input = inputShape(manifest.inputSchema)
  const retained: Record<string, Shape | Member> = {
    tenant_id: 'one',
    intent: 'one',
    input,
    attachments: 'any',
    workflow: workflowShape(manifest, input),
    [storage.workspace.blackboardKey]: { shape: 'one', comes: 'state' },
    ...Object.fromEntries([...writtenBy(states)].map((key) => [key, { shape: 'any', comes: 'written' }])),
    ...Object.fromEntries(Object.keys(context).map((key) => [key, 'any'])),
  }
  const human = [...states.values()].find(({ kind }) => kind === 'Human')
  if (human !== undefined) retained['human'] = { shape: shapeOfState(human), comes: 'state' }
  for (const [name, one] of states) retained[name] = { shape: shapeOfState(one), comes: 'state' }
  const blackboard = members(retained, { isOpen: true })
  return members({ state: members({ name: 'one', feedback: 'one', visit: 'one' }), ...retained, blackboard, ...own() })

  function own(): Readonly<Record<string, Shape | Member>> {
    const current = state === null ? undefined : states.get(state)
    if (current === undefined || moment === 'before' || moment === 'end') return {}
    const result = shapeOfState(current)
    const output = result.names.get('output') ?? { shape: 'any' as const }
    if (moment === 'handler') return { result, output }
    if (moment === 'judge') return { task: 'one', output }
    const entered = members({ name: 'one', feedback: 'one', visit: 'one' })
    const left = Object.fromEntries(
      ['output', 'response', 'score'].flatMap((name) => {
        const member = result.names.get(name)
        return member === undefined ? [] : [[name, member]]
      }),
    )
    const both = { names: new Map([...entered.names, ...result.names]) }
    return { ...left, status: 'one', result, state_output: result, state: both }
  }
}

function writtenBy(states: ReadonlyMap<string, State>): ReadonlySet<string> {
  const keys = [...states.values()].flatMap((state) => {
    if (state.kind === 'Subworkflow') return state.resultKey ?? []
    return state.kind === 'System' && state.command.trim() === 'update_blackboard' ? Object.keys(state.env) : []
  })
  return new Set(keys)
}

/** `workflow.x` is the older name of `input.x`. Members of the workflow itself take precedence. */
function workflowShape({ context }: Known, input: Shape): Members {
  const own = {
    name: 'one',
    version: 'one',
    storage: 'any',
    context: members(Object.fromEntries(Object.keys(context).map((key) => [key, 'any']))),
  } as const
  const supplied = typeof input === 'object' ? input.names : []
  return { names: new Map([...supplied, ...members(own).names]), isOpen: input === 'any' }
}

/** Schema keywords that allow more than `properties` lists. */
const opening = [
  '$ref',
  '$dynamicRef',
  'allOf',
  'anyOf',
  'oneOf',
  'if',
  'dependentSchemas',
  'patternProperties',
  'unevaluatedProperties',
]

/** The listed properties are all, unless the schema says otherwise. */
function inputShape(schema: JsonObject | null): Shape {
  const shape = schema === null ? 'any' : shapeOfSchema(schema as Json, 0)
  if (typeof shape !== 'object') return 'any'
  return { names: new Map([['attachments', { shape: 'any' as const }], ...shape.names]) }
}

function shapeOfSchema(schema: Json | undefined, depth: number): Shape {
  if (typeof schema !== 'object' || schema === null || Array.isArray(schema) || depth > 8) return 'any'
  const { properties, additionalProperties, type } = schema as JsonObject
  if (['string', 'number', 'integer', 'boolean', 'null'].includes(String(type))) return 'one'
  const isListed = typeof properties === 'object' && properties !== null && !Array.isArray(properties)
  const isOpen = additionalProperties !== undefined && additionalProperties !== false
  if (!isListed || isOpen || opening.some((word) => Object.hasOwn(schema, word))) return 'any'
  const listed = Object.entries(properties as JsonObject)
  if (listed.length === 0) return 'any'
  return members(Object.fromEntries(listed.map(([name, one]) => [name, shapeOfSchema(one, depth + 1)])))
}

type Unknown = Readonly<{
  /** Up to the first part that cannot be resolved. */
  path: string
  problem: string
  /** The caller may supply it, so it is not an error yet. */
  mayCome: boolean
}>

/** Why a name can have no value there; undefined if it can have one. */
export function unknownName(known: Members, { parts }: UsedName): Unknown | undefined {
  if (parts === null) return undefined
  let shape: Shape = known
  for (const [index, part] of parts.entries()) {
    if (shape === 'any') return undefined
    const path = parts.slice(0, index + 1).join('.')
    if (shape === 'one') {
      return { path, problem: `${parts.slice(0, index).join('.')} has no members`, mayCome: false }
    }
    const member = shape.names.get(part)
    if (member === undefined) return unlisted(shape, parts, index)
    shape = member.shape
  }
  return undefined
}

function unlisted(shape: Members, parts: readonly string[], index: number): Unknown | undefined {
  const [path, parent] = [parts.slice(0, index + 1).join('.'), parts.slice(0, index).join('.')]
  const near = nearestName(parts[index]!, shape.names.keys())
  const isCaller = shape.isOpen === true
  if (isCaller && parent === 'workflow') return undefined
  if (isCaller && near?.toLowerCase() !== parts[index]!.toLowerCase()) {
    const problem = `nothing in this manifest writes ${path}; a run fails here unless it is started with it (blackboard)`
    return { path, problem, mayCome: true }
  }
  if (parent !== '') {
    const has = [...shape.names.keys()].slice(0, 12).join(', ')
    const hint = near === undefined ? `it has ${has}` : `did you mean ${parent}.${near}?`
    return { path, problem: `${parent} has no ${quote(parts[index]!)}; ${hint}`, mayCome: false }
  }
  const meant = near === undefined ? '' : `did you mean ${near}? `
  const others = `A field of the input is input.${path}, and what a run is started with on the blackboard is blackboard.${path}`
  return { path, problem: `there is no name ${quote(path)} here; ${meant}${others}`, mayCome: false }
}

const quote = (text: string): string => `'${text.slice(0, 64).toWellFormed()}'`

/** Throws for a name that had no value when a text was rendered, unless the manifest allows that. */
export const refuseMissing =
  (known: Members, context: Context, field: string): OnMissing =>
  (used) => {
    const problem = missingProblem(known, context, used)
    if (problem === undefined) return
    throw new AppError('ERR_TEMPLATE_INVALID', `${field}: {{${used.name}}} has no value: ${problem}.`, {
      field,
      name: used.name,
    })
  }

function missingProblem(known: Members, context: Context, { name, parts, use }: UsedName): string | undefined {
  if (parts === null)
    return `inside #each and #with, a name refers to the item; write @root.${name} to refer to the run`
  const index = firstAbsent(context, parts)
  const member = memberAt(known, parts.slice(0, index + 1))
  const path = parts.slice(0, index + 1).join('.')
  if (member === undefined) {
    const parent = parts.slice(0, index).join('.')
    const value = valueAt(context, parts.slice(0, index))
    const isMap = typeof value === 'object' && value !== null && !Array.isArray(value)
    const near = isMap ? nearestName(parts[index] ?? '', Object.keys(value)) : undefined
    const input = valueAt(context, ['input', parts[index] ?? ''])
    const hint = near !== undefined ? `; did you mean ${parent === '' ? near : `${parent}.${near}`}?` : ''
    const supplied = near === undefined && input !== undefined ? `; the input has it as input.${parts[index]}` : ''
    return `${parent === '' ? 'the run' : parent} has no ${quote(parts[index] ?? name)}${hint}${supplied}`
  }
  if (member.comes === 'state') return `nothing that sets ${path} has run yet; use it under {{#if ${path}}}`
  if (member.comes === 'written' && use !== 'sum') {
    return `nothing has written ${path} yet; give it a first value in spec.context, or use it under {{#if ${path}}}`
  }
  if (member.comes === 'graded')
    return `no judge gave a ${parts.at(-1)}; add judges to the state or validators to its agent`
  return undefined
}

function firstAbsent(context: Context, parts: readonly string[]): number {
  let value: Value = context
  for (const [index, part] of parts.entries()) {
    value = memberOf(value, part)
    if (value === undefined) return index
  }
  return parts.length - 1
}

const valueAt = (context: Context, parts: readonly string[]): Value =>
  parts.reduce<Value>((value, part) => memberOf(value, part), context)

function memberAt(known: Members, parts: readonly string[]): Member | undefined {
  let member: Member | undefined = { shape: known }
  for (const part of parts) {
    if (member === undefined || typeof member.shape !== 'object') return undefined
    member = member.shape.names.get(part)
  }
  return member
}
