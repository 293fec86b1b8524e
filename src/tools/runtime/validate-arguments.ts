import type { z } from 'zod'
import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import { counted } from '../../kernel/counted.ts'
import { nearestName } from '../../kernel/nearest-name.ts'
import type { CatalogTool } from './catalog.ts'
import type { ArgumentRule } from './define-tool.ts'

type ValidatedArguments = Readonly<{ input: unknown; warnings: readonly string[] }>

/** Validates by the tool's own schema, a parameter because it may have had to be loaded. */
export function validateArguments(
  tool: CatalogTool,
  schema: Pick<z.ZodType, 'safeParse'>,
  args: unknown,
  rule: ArgumentRule = tool.definition.arguments ?? 'strict',
): ValidatedArguments {
  if (typeof args !== 'object' || args === null || Array.isArray(args)) {
    throw new AppError('ERR_INVALID_INPUT', `The arguments of '${tool.name}' must be an object.`, {
      field: 'arguments',
      constraint: 'object',
    })
  }
  const supplied = withOwnNames(tool, args as Record<string, unknown>)
  const warnings: string[] = []
  let clean: Record<string, unknown> = supplied
  const omit = (key: string) => {
    if (clean === supplied) clean = { ...supplied }
    delete clean[key]
  }
  for (const key of Object.keys(supplied)) {
    if (!tool.parameters.has(key)) {
      if (rule === 'schema') {
        if (tool.listed.inputSchema['additionalProperties'] === false) throw unknownField(tool, key)
        continue
      }
      if (rule === 'strict' || tool.required.length > 0) throw unknownField(tool, key)
      warnings.push(`Unknown field '${key}' was ignored.`)
      omit(key)
    } else if (supplied[key] === null && !tool.nullable.has(key)) {
      omit(key)
    }
  }
  if (tool.definition.actions !== undefined) clean = { ...unusedBy(tool, clean['action']), ...clean }
  const missing = tool.required.filter((key) => clean[key] === undefined)
  if (missing.length > 0) throw missingFields(tool, missing, rule)
  if (tool.definition.needsChange === true) requireChange(tool, clean)
  const parsed = schema.safeParse(clean)
  if (!parsed.success) throw invalidInput(tool, parsed.error.issues, clean)
  return { input: parsed.data, warnings }
}

function unusedBy({ definition: { actions = {} } }: CatalogTool, action: unknown): Readonly<Record<string, unknown>> {
  return typeof action === 'string' && Object.hasOwn(actions, action) ? (actions[action]!.unused ?? {}) : {}
}

/** The tenant says where, not what. */
function requireChange({ parameters, required }: CatalogTool, supplied: Readonly<Record<string, unknown>>): void {
  const changes = [...parameters].filter((name) => !required.includes(name) && name !== 'tenant')
  if (changes.some((name) => supplied[name] !== undefined)) return
  throw new AppError('ERR_INVALID_INPUT', `${changes.join(', ')}: give at least one of them`, { field: changes[0]! })
}

function withOwnNames(tool: CatalogTool, supplied: Record<string, unknown>): Record<string, unknown> {
  const { otherNames = {} } = tool.definition
  const others = Object.keys(supplied).filter((key) => Object.hasOwn(otherNames, key))
  if (others.length === 0) return supplied
  const named = { ...supplied }
  for (const key of others) {
    const own = otherNames[key]!
    if (supplied[key] !== null && named[own] !== undefined && named[own] !== null) {
      const message = `'${key}' is another name of '${own}' for '${tool.name}'; use only one of them.`
      throw new AppError('ERR_INVALID_INPUT', message, { field: key, constraint: `not beside ${own}` })
    }
    delete named[key]
    named[own] = supplied[key] ?? named[own]
  }
  return named
}

/**
 * Refuses what no store could hold and what would take long to read: text with U+0000, the key `__proto__` (which copying an
 * object silently drops), unbounded nesting, and very many values. `wrappers` are levels around the arguments that do not count.
 */
export function requirePlainJson(args: unknown, wrappers = 0): void {
  const depthMax = limits.argumentDepthMax + wrappers
  let values = 0
  const visit = (value: unknown, path: string, depth: number): void => {
    if (++values > limits.argumentValuesMax) {
      const rule = `at most ${limits.argumentValuesMax} values`
      throw notPlain('', `must have ${rule} at all levels together`, rule)
    }
    if (typeof value === 'string') requirePlainText(value, path)
    if (typeof value !== 'object' || value === null) return
    if (depth >= depthMax) {
      const rule = `${limits.argumentDepthMax} levels`
      throw notPlain(path, `is nested more than ${rule} deep`, `at most ${rule}`)
    }
    for (const key of Object.keys(value)) {
      requirePlainText(key, path)
      const inner = path === '' ? key : `${path}.${key}`
      if (key === '__proto__')
        throw notPlain(inner, 'is a name that cannot be stored; choose another', 'no key __proto__')
      visit((value as Record<string, unknown>)[key], inner, depth + 1)
    }
  }
  visit(args, '', 0)
}

function requirePlainText(text: string, path: string): void {
  if (text.includes('\u0000')) throw notPlain(path, 'must not contain the character U+0000', 'no U+0000')
}

function notPlain(path: string, problem: string, constraint: string): AppError {
  const field = path === '' ? 'arguments' : displayed(path)
  return new AppError('ERR_INVALID_INPUT', `'${field}' ${problem}.`, { field, constraint })
}

function unknownField(tool: CatalogTool, key: string): AppError {
  const accepted = [...tool.parameters]
  const nearest = nearestName(key, accepted)
  const hint = nearest === undefined ? '' : ` Did you mean '${nearest}'?`
  const list = accepted.length === 0 ? 'it takes no arguments' : `accepted: ${accepted.join(', ')}`
  return new AppError('ERR_INVALID_INPUT', `Unknown field '${displayed(key)}' for '${tool.name}'.${hint} (${list})`, {
    field: displayed(key),
    constraint: 'unknown field',
    accepted,
    ...(nearest === undefined ? {} : { nearest }),
  })
}

/** The message begins with the first field and names all missing fields at once. */
function missingFields(tool: CatalogTool, missing: readonly string[], rule: ArgumentRule): AppError {
  const messageFor = (key: string): string =>
    rule === 'aegis'
      ? `Invalid tool arguments: required field '${key}' is missing or null for tool '${tool.name}'`
      : `Required field '${key}' is missing for '${tool.name}'.${adviceOn(tool, key)}`
  const [first, ...others] = missing
  const more = others.map((key) => `'${key}'`).join(', ')
  const message = others.length === 0 ? messageFor(first!) : `${messageFor(first!)} Also missing: ${more}.`
  const values = schemaOf(tool, first!).enum
  return new AppError('ERR_INVALID_INPUT', message, {
    field: first,
    constraint: 'required',
    ...(values === undefined ? {} : { accepted: values }),
    ...(others.length === 0 ? {} : { missing, errors: missing.map(messageFor) }),
  })
}

type FieldSchema = Readonly<{ enum?: readonly unknown[]; description?: string; items?: Readonly<{ type?: string }> }>

const schemaOf = ({ listed }: CatalogTool, key: string): FieldSchema =>
  ((listed.inputSchema['properties'] ?? {}) as Record<string, FieldSchema>)[key] ?? {}

/** The required value, in the schema's words. */
function adviceOn(tool: CatalogTool, key: string): string {
  const { enum: values, description } = schemaOf(tool, key)
  if (values !== undefined) return ` It must be one of ${values.join(', ')}.`
  return description === undefined ? '' : ` ${description}`
}

function invalidInput(tool: CatalogTool, issues: readonly z.core.$ZodIssue[], args: unknown): AppError {
  const problems = issues.slice(0, 20).map((issue) => describeIssue(tool, issue, args))
  const [first, ...others] = problems.filter(
    ({ field }, index) => problems.findIndex((other) => other.field === field) === index,
  )
  const named = others.slice(0, NAMED_MAX).map(({ field, constraint }) => ` '${field}' ${constraint}.`)
  const unnamed = others.length - named.length
  const more = unnamed === 0 ? '' : ` (and ${unnamed} more)`
  return new AppError(
    'ERR_INVALID_INPUT',
    `Invalid arguments for '${tool.name}': '${first!.field}' ${first!.constraint}.${named.join('')}${more}`,
    {
      ...first,
      ...(problems.length > 1 ? { issues: problems } : {}),
    },
  )
}

function describeIssue(
  tool: CatalogTool,
  issue: z.core.$ZodIssue,
  args: unknown,
): { field: string; constraint: string; nearest?: string } {
  const field = displayed(issue.path.map(String).join('.')) || 'arguments'
  switch (issue.code) {
    case 'invalid_type':
      return { field, constraint: `must be ${article(issue.expected)}${exampleOf(tool, issue)}` }
    case 'invalid_value':
      return {
        field,
        constraint: `must be one of ${issue.values.map(String).join(', ')}`,
        ...nearestOf(valueAt(args, issue.path), issue.values.map(String)),
      }
    case 'too_small':
      return { field, constraint: `must be at least ${amount(issue.minimum, issue.origin)}` }
    case 'too_big':
      return { field, constraint: `must be at most ${amount(issue.maximum, issue.origin)}` }
    case 'unrecognized_keys':
      return { field, constraint: `has unknown fields: ${issue.keys.slice(0, 5).map(displayed).join(', ')}` }
    default:
      return { field, constraint: issue.message.replace(/^Invalid input: /, '').replace(/\.$/, '') }
  }
}

/** Arrays are most often written wrongly. */
function exampleOf(tool: CatalogTool, { expected, path }: z.core.$ZodIssueInvalidType): string {
  if (expected !== 'array' || path.length !== 1) return ''
  const type = schemaOf(tool, String(path[0])).items?.type
  const item = { string: '"text"', number: '1', integer: '1', boolean: 'true', object: '{…}' }[type ?? '']
  return item === undefined ? '' : `, such as [${item}]`
}

const valueAt = (args: unknown, path: readonly PropertyKey[]): unknown =>
  path.reduce<unknown>((value, key) => (value as Record<PropertyKey, unknown> | undefined)?.[key], args)

const nearestOf = (input: unknown, values: readonly string[]): { nearest?: string } => {
  const nearest = typeof input === 'string' ? nearestName(input, values) : undefined
  return nearest === undefined ? {} : { nearest }
}

/** Text of the caller for a message: short, and whole characters only. */
export const displayed = (text: string): string =>
  (text.length > DISPLAYED_CHARACTERS_MAX ? `${text.slice(0, DISPLAYED_CHARACTERS_MAX - 3)}…` : text).toWellFormed()
const DISPLAYED_CHARACTERS_MAX = 64
/** Further problems in the message; `issues` in the details has up to twenty. */
const NAMED_MAX = 3
const units: Readonly<Record<string, string>> = { string: 'character', array: 'item' }
const amount = (limit: number | bigint, origin: string): string =>
  units[origin] === undefined ? String(limit) : counted(Number(limit), units[origin])
const article = (type: string): string => (/^[aeiou]/.test(type) ? `an ${type}` : `a ${type}`)
