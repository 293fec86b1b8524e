import type { Condition } from '../../contract/policy-conditions.ts'
import type { PolicyTool } from '../../contract/tool-policies.ts'
import { EVERY, parsePath } from './paths.ts'
import { isContextKey } from './rules.ts'

type Schema = Readonly<Record<string, unknown>>
type Kind = keyof typeof kinds
const kinds = {
  string: 'a text',
  number: 'a number',
  boolean: 'true or false',
  array: 'a list',
  object: 'an object',
  null: 'null',
} as const
const allKinds = Object.keys(kinds) as Kind[]

/**
 * What a call can contain, by the schema of its tool, that the condition never matches; undefined if there is nothing.
 * A policy that blocks by the condition lets such a call pass.
 */
export function unseenBy(
  condition: Condition,
  { inputSchema, commands, origin }: PolicyTool & Readonly<{ inputSchema?: unknown }>,
): string | undefined {
  const { key, quantifier, operator, type = 'string' } = condition
  // It also matches where nothing is found.
  if (isContextKey(key) || quantifier === 'none') return undefined
  const path = parsePath(key, 'key')
  const unseen = new Set<Kind>()
  let canBeAbsent = false
  let schema: unknown = inputSchema
  for (const [index, step] of path.entries()) {
    if (typeof step === 'string') canBeAbsent ||= isOptional(schema, step, origin === 'platform')
    else if (step !== EVERY) canBeAbsent = true
    schema = partOf(schema, step)
    const next = path[index + 1]
    // A single command and a list of commands are both seen as either.
    const isCommands = index === 0 && step === commands
    const expected: Kind = next === undefined ? type : typeof next === 'string' ? 'object' : 'array'
    if (isCommands) {
      schema = listOf(schema)
      if (next === undefined) schema = partOf(schema, EVERY)
    }
    if (next === undefined && operator === 'notEqual') continue
    for (const kind of kindsOf(schema)) if (kind !== expected) unseen.add(kind)
  }
  if (unseen.size === 0 && !canBeAbsent) return undefined
  const found = [...unseen].map((kind) => kinds[kind])
  const calls = [...found.map((kind) => `with ${kind}`), ...(canBeAbsent ? ['without a value'] : [])]
  const list =
    unseen.has('array') && path.every((step) => step !== EVERY)
      ? ' For the items of a list, add a policy with [*] after the key and the quantifier any.'
      : ''
  return `a call ${calls.join(', or ')} there never matches, and this policy does not hold it up.${list} To hold up all others, add a policy without conditions, and policies with conditions for the calls that may pass.`
}

/** The alternatives of a schema; undefined stands for an unknown one, which accepts everything. */
function alternativesOf(schema: unknown): readonly (Schema | undefined)[] {
  if (typeof schema !== 'object' || schema === null || Array.isArray(schema)) return [undefined]
  const own = schema as Schema
  const either = own['anyOf'] ?? own['oneOf']
  if (Array.isArray(either) && either.length > 0 && own['type'] === undefined) return either.flatMap(alternativesOf)
  return [own]
}

function kindsOf(schema: unknown): readonly Kind[] {
  return alternativesOf(schema).flatMap((one) => {
    if (Array.isArray(one?.['enum'])) return one['enum'].map(kindOf)
    if (one !== undefined && Object.hasOwn(one, 'const')) return [kindOf(one['const'])]
    const types = [one?.['type'] ?? allKinds].flat().map((type) => (type === 'integer' ? 'number' : type))
    return allKinds.filter((kind) => types.includes(kind))
  })
}

const kindOf = (value: unknown): Kind =>
  value === null ? 'null' : Array.isArray(value) ? 'array' : (typeof value as Exclude<Kind, 'null' | 'array'>)

const memberOf = (schema: Schema | undefined, name: string): Schema | undefined => {
  const members = schema?.['properties'] as Schema | undefined
  return members !== undefined && Object.hasOwn(members, name) ? (members[name] as Schema) : undefined
}

/** The schema of a member or of the items, of the first alternative that has one. */
function partOf(schema: unknown, step: string | number | typeof EVERY): unknown {
  const parts = alternativesOf(schema).map((one) => (typeof step === 'string' ? memberOf(one, step) : one?.['items']))
  return parts.find((part) => part !== undefined)
}

const listOf = (schema: unknown): unknown =>
  alternativesOf(schema).find((one) => one?.['type'] === 'array') ?? { type: 'array', items: schema }

/** Defaults of our own tools are filled in before a call is judged; those of others are not known here. */
const isOptional = (schema: unknown, name: string, hasDefaults: boolean): boolean =>
  alternativesOf(schema).some((one) => {
    const required = one?.['required']
    if (Array.isArray(required) && required.includes(name)) return false
    return !(hasDefaults && memberOf(one, name)?.['default'] !== undefined)
  })
