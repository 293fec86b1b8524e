import { AppError } from '../../../contract/app-error.ts'
import { nearestName, squashName } from '../../../kernel/nearest-name.ts'
import type { KnownNames } from '../known-names.ts'
import { requirePlainJson } from '../validate-arguments.ts'
import { type GluedCall, isArguments, parseObject, splitGluedCall } from './glued-call.ts'
import { parameterNames, requiredNames } from './params-line.ts'
import type { JsonSchema } from './schema-text.ts'

/**
 * Reads the arguments of `run_tool` as the intended call.
 *
 * 1. A tool is chosen only by its exact name, by the name table, or if it is the only known name that differs just in prefix,
 *    case and separators. Anything else is an error that names the nearest ones.
 * 2. Arguments are moved, never invented. Two different values for one argument are an error.
 * 3. `warnings` reports everything that was read differently from how it was written.
 * 4. `run_tool` never runs itself.
 */
export type RecoveredCall = Readonly<{
  name: string
  args: Readonly<Record<string, unknown>>
  warnings: readonly string[]
}>

export type CallTargets = Readonly<{
  /** The names this caller may use. Only these can be chosen or suggested. */
  names: KnownNames
  inputSchemaOf(name: string): JsonSchema | undefined
  /** Name table lookup, for safe names and aliases. */
  documentedNameOf?: ((name: string) => string | undefined) | undefined
}>

const self = 'run_tool'
const nameKeys = ['tool_name', 'toolName', 'tool', 'name'] as const
const argumentKeys = ['tool_args', 'args', 'arguments', 'params', 'input', 'parameters'] as const
const prefixes = /^(?:functions\.|default_api\.|mcp__castellan__|castellan__|castellan\.|archestra__)+/iu
const displayedCharactersMax = 80
const namedKeysMax = 20
const SUGGESTED_MAX = 3

type Arguments = Readonly<Record<string, unknown>>

export function recoverCall(raw: unknown, targets: CallTargets): RecoveredCall {
  const input = typeof raw === 'string' ? parseObject(raw) : raw
  if (!isArguments(input))
    throw invalid(
      'arguments',
      'must be an object with tool_name and tool_args',
      `Send {"tool_name": "…", "tool_args": {…}}`,
    )
  const warnings: string[] = []
  const { key, glued, name } = chooseTool(input, targets, warnings)
  const schema = targets.inputSchemaOf(name) ?? {}
  const strays = Object.keys(input).filter((other) => other !== key)
  const container = chooseContainer(input, strays, schema, warnings)
  const stray = Object.fromEntries(
    strays.filter((other) => other !== container.key).map((other) => [other, input[other]]),
  )
  let args = container.args
  if (glued.args !== undefined && Object.keys(glued.args).length > 0) {
    args = merge(args, glued.args, 'the arguments written into tool_name')
    warnings.push('Arguments written into tool_name were moved into tool_args.')
  }
  if (Object.keys(stray).length > 0)
    args = takeStrays(args, stray, { schema, hadContainer: container.filled, name, warnings })
  return { name, args, warnings }
}

type ChosenTool = Readonly<{ key: string; glued: GluedCall; name: string }>

/** `tool_name` decides when present; otherwise the one alias key whose value is a tool. */
function chooseTool(input: Arguments, targets: CallTargets, warnings: string[]): ChosenTool {
  const texts = nameKeys.filter((key) => typeof input[key] === 'string' && (input[key] as string).trim() !== '')
  const first = texts[0]
  if (first === undefined) {
    throw invalid('tool_name', 'is required: the name of the tool to run, as a string', 'Use search_tools to find it')
  }
  const read = texts.map((key) => {
    const text = input[key] as string
    const glued = targets.names.has(text) ? { name: text } : splitGluedCall(text)
    return { key, glued, name: resolveName(glued.name, targets) }
  })
  const found = first === 'tool_name' ? read.slice(0, 1) : read.filter((entry) => entry.name !== undefined)
  if (found.length > 1) {
    const keys = found.map((entry) => entry.key).join(' and ')
    throw invalid('tool_name', `is missing, and ${keys} both name a tool`, 'Put the one to run into tool_name')
  }
  const { key, glued, name } = found[0] ?? read[0]!
  if (squashName(glued.name.replace(prefixes, '')) === squashName(self)) {
    throw invalid(
      'tool_name',
      `${self} cannot run itself`,
      "Put the target's name into tool_name and its arguments into tool_args",
    )
  }
  if (name === undefined) throw unknownTool(glued.name, targets.names)
  if (glued.unreadable === true) {
    throw invalid(
      'tool_name',
      'must be the name alone; what follows it cannot be read',
      'Put the arguments, each with its name, into tool_args',
    )
  }
  if (key !== 'tool_name') warnings.push(`${key} was read as tool_name.`)
  if (name !== glued.name) warnings.push(`${displayed(glued.name)} was read as ${displayed(name)}.`)
  return { key, glued, name }
}

function resolveName(input: string, targets: CallTargets): string | undefined {
  const { names } = targets
  for (const spelling of [input, input.replace(prefixes, '')]) {
    if (spelling === self) return undefined
    if (names.has(spelling)) return spelling
    const documented = targets.documentedNameOf?.(spelling)
    if (documented !== undefined && documented !== self && names.has(documented)) return documented
  }
  const requested = input.replace(prefixes, '')
  if (squashName(requested) === '') return undefined
  const equal = names.spelledLike(requested).filter((name) => name !== self)
  return equal.length === 1 ? equal[0] : undefined
}

function unknownTool(input: string, names: KnownNames): AppError {
  const nearest = names
    .nearest(input.replace(prefixes, ''), SUGGESTED_MAX + 1)
    .filter((name) => name !== self)
    .slice(0, SUGGESTED_MAX)
  const suggestion = nearest.length > 0 ? ` Nearest: ${nearest.join(', ')}.` : ''
  return new AppError(
    'ERR_UNKNOWN_TOOL',
    `tool_name: no tool is called ${displayed(input)}.${suggestion} Use search_tools to find the exact name.`,
    { field: 'tool_name', given: input.slice(0, displayedCharactersMax), nearest },
  )
}

type Container = Readonly<{ key: string | undefined; args: Arguments; filled: boolean }>

/**
 * The member that holds the target's arguments. `tool_args` always does. Another key does unless it is a parameter of the target
 * itself; even then it does if it holds everything that the target requires and no other top-level member does.
 */
function chooseContainer(
  input: Arguments,
  strays: readonly string[],
  schema: JsonSchema,
  warnings: string[],
): Container {
  const none: Container = { key: undefined, args: {}, filled: false }
  const parameters = new Set(parameterNames(schema))
  const key = argumentKeys.find((candidate) => {
    if (!strays.includes(candidate)) return false
    return candidate === 'tool_args' || isContainer(input[candidate], candidate, parameters, requiredNames(schema))
  })
  if (key === undefined) return none
  const value = input[key]
  if (value === null || value === undefined || (typeof value === 'string' && value.trim() === ''))
    return { ...none, key }
  let args = isArguments(value) ? value : typeof value === 'string' ? parseTwice(value) : undefined
  if (args === undefined) {
    const rule =
      typeof value === 'string' ? 'must be an object; the text given is not a JSON object' : 'must be an object'
    throw invalid('tool_args', rule, 'Send the arguments as {"parameter": value}')
  }
  if (typeof value === 'string') warnings.push(`${key} was JSON text and was read as an object.`)
  if (key !== 'tool_args') warnings.push(`${key} was read as tool_args.`)
  const wrapped = Object.keys(args)
  const [only] = wrapped
  if (
    wrapped.length === 1 &&
    only !== undefined &&
    (argumentKeys as readonly string[]).includes(only) &&
    !parameters.has(only)
  ) {
    const inner = args[only]
    if (isArguments(inner)) {
      warnings.push(`tool_args.${only} was read as tool_args.`)
      args = inner
    }
  }
  return { key, args, filled: Object.keys(args).length > 0 }
}

function isContainer(
  value: unknown,
  key: string,
  parameters: ReadonlySet<string>,
  required: readonly string[],
): boolean {
  const held = isArguments(value) ? value : typeof value === 'string' ? parseTwice(value) : undefined
  if (held === undefined) return false
  if (!parameters.has(key)) return true
  return required.length > 0 && required.every((name) => Object.hasOwn(held, name))
}

/** Some models encode JSON text as JSON text once more. */
function parseTwice(text: string): Arguments | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'string' ? parseObject(value) : isArguments(value) ? value : undefined
  } catch {
    return undefined
  }
}

type StrayContext = Readonly<{ schema: JsonSchema; hadContainer: boolean; name: string; warnings: string[] }>

/**
 * Members beside tool_name. Without tool_args they are the arguments, and the target judges them; beside tool_args only those
 * that the target knows are used.
 */
function takeStrays(
  args: Arguments,
  stray: Arguments,
  { schema, hadContainer, name, warnings }: StrayContext,
): Arguments {
  const parameters = parameterNames(schema)
  const known = new Set(parameters)
  const isTaken = (key: string): boolean => !hadContainer || known.has(key)
  const taken = Object.keys(stray).filter(isTaken)
  const ignored = Object.keys(stray).filter((key) => !isTaken(key))
  for (const key of ignored.slice(0, namedKeysMax)) {
    const near = nearestName(key, parameters)
    warnings.push(
      `${displayed(key)} is not a parameter of ${name} and was ignored.${near === undefined ? '' : ` Did you mean ${near}?`}`,
    )
  }
  if (ignored.length > namedKeysMax) warnings.push(`${ignored.length - namedKeysMax} more were ignored.`)
  if (taken.length === 0) return args
  const merged = merge(args, Object.fromEntries(taken.map((key) => [key, stray[key]])), 'the members beside tool_name')
  const moved = taken.filter((key) => !Object.hasOwn(args, key))
  if (moved.length > 0) warnings.push(`Moved into tool_args: ${listed(moved)}.`)
  return merged
}

function merge(args: Arguments, more: Arguments, origin: string): Arguments {
  // The target would refuse deep nesting; comparing it first could exhaust the stack.
  requirePlainJson(args)
  requirePlainJson(more)
  for (const key of Object.keys(more)) {
    if (!Object.hasOwn(args, key) || sameValue(args[key], more[key])) continue
    throw invalid(
      'tool_args',
      `has another value for ${displayed(key)} than ${origin}`,
      'Give each argument once, inside tool_args',
    )
  }
  return Object.fromEntries([...Object.entries(more), ...Object.entries(args)])
}

function listed(keys: readonly string[]): string {
  const more = keys.length > namedKeysMax ? ` and ${keys.length - namedKeysMax} more` : ''
  return `${keys.slice(0, namedKeysMax).map(displayed).join(', ')}${more}`
}

const sameValue = (left: unknown, right: unknown): boolean => JSON.stringify(left) === JSON.stringify(right)

/** Text of the caller inside our messages: quoted, on one line, bounded. */
const displayed = (text: string): string =>
  JSON.stringify(text.length > displayedCharactersMax ? `${text.slice(0, displayedCharactersMax)}…` : text)

const invalid = (field: string, rule: string, nextStep: string): AppError =>
  new AppError('ERR_INVALID_INPUT', `${field}: ${rule}. ${nextStep}.`, { field, rule })
