import { limits } from '../../contract/limits.ts'
import type { Condition, Quantifier } from '../../contract/policy-conditions.ts'
import type { PolicySubject, PolicyTool } from '../../contract/tool-policies.ts'
import { ruledNameOf } from '../../contract/tool-spellings.ts'
import { compileLinearPattern } from '../../kernel/linear-pattern.ts'
import { hasWildcard, type Path, parsePath } from './paths.ts'
import type { PolicyKind, StoredPolicy } from './ports.ts'
import { alikeOf, contextKeys, invalid, isContextKey } from './rules.ts'

/** Whether a value meets the condition; undefined if that is too expensive to decide. */
type Test = (value: unknown) => boolean | undefined

export type CompiledCondition = Readonly<
  | {
      kind: 'values'
      /** The index of its path among those of the tool. */
      path: number
      quantifier: Quantifier
      test: Test
    }
  | { kind: 'context'; key: string; holds: (subject: PolicySubject) => boolean }
>

export type CompiledPolicy<Kind extends PolicyKind = PolicyKind> = Readonly<{
  id: string
  action: StoredPolicy<Kind>['action']
  reason: string | null
  conditions: readonly CompiledCondition[]
}>

/** The policies of one kind for one tool. Conditions share their paths: each is evaluated once for a call. */
export type CompiledTool<Kind extends PolicyKind = PolicyKind> = Readonly<{
  paths: readonly Path[]
  specific: readonly CompiledPolicy<Kind>[]
  defaults: readonly CompiledPolicy<Kind>[]
}>

export type PolicySet = Readonly<{
  invocation: ReadonlyMap<string, CompiledTool<'invocation'>>
  trustedData: ReadonlyMap<string, CompiledTool<'trusted_data'>>
  /** Whether any policy requires approval. */
  requiresApproval: boolean
}>

export const noPolicies: PolicySet = { invocation: new Map(), trustedData: new Map(), requiresApproval: false }

export function compilePolicies(policies: readonly StoredPolicy[]): PolicySet {
  const ofKind = <Kind extends PolicyKind>(kind: Kind): ReadonlyMap<string, CompiledTool<Kind>> => {
    const own = policies.filter((policy): policy is StoredPolicy<Kind> => policy.kind === kind)
    const alike = Map.groupBy(own.filter(isStrict), ({ toolId }) => alikeOf(toolId))
    const named = [...Map.groupBy(own, ({ toolId }) => ruledNameOf(toolId))].map(([id, all]): [string, typeof own] => {
      const others = (alike.get(alikeOf(id)) ?? []).filter(({ toolId }) => toolId !== id)
      return [id, alikeOf(id) === undefined ? all : inOrder([...all, ...others])]
    })
    alike.delete(undefined)
    return new Map([...named, ...(alike as Map<string, typeof own>)].map(([id, all]) => [id, compileTool(all)]))
  }
  return {
    invocation: ofKind('invocation'),
    trustedData: ofKind('trusted_data'),
    requiresApproval: policies.some(({ action }) => action === 'require_approval'),
  }
}

/** A policy that allows more applies only to its exact name. */
const isStrict = ({ action }: StoredPolicy): boolean =>
  action !== 'allow_when_context_is_untrusted' && action !== 'mark_as_trusted'

const inOrder = <Policy extends StoredPolicy>(policies: readonly Policy[]): Policy[] =>
  policies.toSorted((one, other) => one.position - other.position)

/** The policies for a tool, or strict ones for tools with a name like its own. */
export function policiesFor<Policies>(
  policies: ReadonlyMap<string, Policies>,
  { id, alike }: PolicyTool,
): Policies | undefined {
  if (id === undefined) return undefined
  return policies.get(id) ?? (alike === undefined ? undefined : policies.get(alike))
}

function compileTool<Kind extends PolicyKind>(policies: readonly StoredPolicy<Kind>[]): CompiledTool<Kind> {
  const paths: Path[] = []
  const slots = new Map<string, number>()
  const slotOf = (key: string): number => {
    let slot = slots.get(key)
    if (slot === undefined) {
      slot = paths.push(parsePath(key, 'key')) - 1
      slots.set(key, slot)
    }
    return slot
  }
  const compiled = policies.map(
    ({ id, action, note, conditions }): CompiledPolicy<Kind> => ({
      id,
      action,
      reason: note,
      conditions: conditions.map((condition) => compileCondition(condition, slotOf)),
    }),
  )
  return {
    paths,
    specific: compiled.filter(({ conditions }) => conditions.length > 0),
    defaults: compiled.filter(({ conditions }) => conditions.length === 0),
  }
}

function compileCondition(condition: Condition, slotOf: (key: string) => number): CompiledCondition {
  const { key, quantifier = 'all' } = condition
  if (isContextKey(key)) return { kind: 'context', key, holds: contextTest(condition) }
  return { kind: 'values', path: slotOf(key), quantifier, test: valueTest(condition, 'value') }
}

/** Throws the error of a condition, by field. */
export function checkCondition(condition: Condition, field: string): void {
  const { key, operator, quantifier, type } = condition
  if (isContextKey(key)) {
    const allowed = Object.hasOwn(contextKeys, key) ? contextKeys[key]! : undefined
    if (allowed === undefined)
      throw invalid(
        `${field}.key`,
        `must be one of ${Object.keys(contextKeys).join(', ')}, or a path that does not begin with context.`,
      )
    if (!allowed.includes(operator)) throw invalid(`${field}.operator`, `must be ${allowed.join(' or ')} with ${key}`)
    if (quantifier !== undefined) throw invalid(`${field}.quantifier`, 'must be left out with a key of the context')
    if (type !== undefined && type !== 'string')
      throw invalid(`${field}.type`, 'must be string with a key of the context')
  } else {
    const path = parsePath(key, `${field}.key`)
    if (quantifier !== undefined && !hasWildcard(path))
      throw invalid(`${field}.quantifier`, 'must be left out unless the key has a wildcard [*]')
  }
  valueTest(condition, `${field}.value`)
}

/**
 * A condition on an argument that the tool does not have would never be met, and a policy that blocks by it would never block.
 */
export function requireParameters(conditions: readonly Condition[], parameters: ReadonlySet<string> | undefined): void {
  if (parameters === undefined) return
  for (const [index, { key }] of conditions.entries()) {
    if (isContextKey(key)) continue
    const field = `conditions[${index}].key`
    const [first] = parsePath(key, field)
    if (typeof first === 'string' && parameters.has(first)) continue
    throw invalid(field, `must begin with an argument of the tool: ${[...parameters].join(', ') || 'it takes none'}`)
  }
}

/** Positions of conditions on arguments that are not among those that the tool describes. */
export function undescribed(conditions: readonly Condition[], described: ReadonlySet<string> | undefined): number[] {
  if (described === undefined) return []
  return conditions.flatMap(({ key }, index) => {
    const [first] = isContextKey(key) ? [] : parsePath(key, `conditions[${index}].key`)
    return typeof first === 'string' && !described.has(first) ? [index] : []
  })
}

function valueTest({ operator, value, type = 'string' }: Condition, field: string): Test {
  if (type !== 'string') {
    const expected = typed(type, value, field)
    if (operator === 'equal') return (actual) => actual === expected
    if (operator === 'notEqual') return (actual) => actual !== expected
    throw invalid(field.replace(/value$/, 'operator'), `must be equal or notEqual with the type ${type}`)
  }
  switch (operator) {
    case 'equal':
      return (actual) => actual === value
    case 'notEqual':
      return (actual) => actual !== value
    case 'contains':
      return (actual) => typeof actual === 'string' && actual.includes(value)
    case 'notContains':
      return (actual) => typeof actual === 'string' && !actual.includes(value)
    case 'startsWith':
      return (actual) => typeof actual === 'string' && actual.startsWith(value)
    case 'endsWith':
      return (actual) => typeof actual === 'string' && actual.endsWith(value)
    case 'regex': {
      const pattern = compileLinearPattern(value, {
        programSizeMax: limits.policyPatternSizeMax,
        refuse: (rule) => invalid(field, rule),
      })
      return (actual) => {
        if (typeof actual !== 'string') return false
        return actual.length > limits.policyTextCharsMax ? undefined : pattern.matcher(actual).find()
      }
    }
  }
}

function typed(type: 'number' | 'boolean', value: string, field: string): number | boolean {
  if (type === 'boolean') {
    if (value !== 'true' && value !== 'false') throw invalid(field, 'must be true or false with the type boolean')
    return value === 'true'
  }
  const number = Number(value)
  if (value.trim() === '' || !Number.isFinite(number)) throw invalid(field, 'must be a number with the type number')
  return number
}

/** An unknown property of the caller equals nothing. */
function contextTest(condition: Condition): (subject: PolicySubject) => boolean {
  const { key, operator, value } = condition
  if (key === 'context.teamIds') {
    const isMember = ({ principal }: PolicySubject): boolean => principal.teams.includes(value)
    return operator === 'contains' ? isMember : (subject) => !isMember(subject)
  }
  const read = readers[key]!
  const test = valueTest(condition, 'value')
  return (subject) => test(read(subject)) === true
}

const readers: Readonly<Record<string, (subject: PolicySubject) => string | undefined>> = {
  'context.externalAgentId': ({ externalAgentId }) => externalAgentId,
  'context.userId': ({ principal }) => principal.user,
  'context.agentId': ({ principal }) => principal.agent,
  'context.gatewayId': ({ principal, profile }) => profile ?? principal.gateway,
  'context.origin': ({ origin }) => origin,
}
