import { parseArgs } from 'node:util'
import { AppError } from '../contract/app-error.ts'
import { nearestName } from '../kernel/nearest-name.ts'
import { wrapped } from './fitted-table.ts'

type Flag = Readonly<{ type: 'string' | 'boolean'; value?: string; description: string; short?: string }>
type Flags = Readonly<Record<string, Flag>>

/** What one action of a command accepts. A flag of another action would have no effect, and is refused. */
export type ActionSpec = Readonly<{
  summary: string
  /** What follows the action: `USER SESSION`, `NAME [SOURCE]`, `TEAM USER…`. */
  arguments?: string
  /** In addition to the flags of the command, which all actions have. */
  flags?: Flags
  /** The flags that say what to change; at least one is needed. */
  changes?: readonly string[]
}>

/** A command of the program as data: parsing, help, completion and the overview all come from it. */
export type CommandSpec = Readonly<{
  name: string
  summary: string
  /** What follows the name, for the usage line; of a command with actions, their table says it. */
  positionals?: string
  /** How many may follow; none if absent. */
  positionalsMax?: number
  description?: string
  flags: Flags
  /** The first word of the command chooses one of them. */
  actions?: Readonly<Record<string, ActionSpec>>
  examples?: readonly string[]
  /** Why it works only on this machine, and what to use for a remote server. */
  onlyHere?: string
}>

export type ParsedCommand = Readonly<{
  positionals: readonly string[]
  text(flag: string): string | undefined
  isSet(flag: string): boolean
}>

/** They choose the state of this machine, and how it is opened. */
export const stateFlags = {
  'data-dir': { type: 'string', value: 'DIR', description: 'Directory of the embedded state.' },
  'database-url': { type: 'string', value: 'URL', description: 'Use PostgreSQL instead of the embedded store.' },
  config: { type: 'string', value: 'FILE', description: 'Configuration file.' },
  mode: { type: 'string', value: 'MODE', description: 'FULL, READONLY, TEST or MINIMAL.' },
} as const satisfies Flags

/** For every command. */
export const outputFlags = {
  json: { type: 'boolean', description: 'Print JSON.' },
  help: { type: 'boolean', short: 'h', description: 'Show this help.' },
} as const satisfies Flags

export const commonFlags: Flags = {
  ...stateFlags,
  'log-level': { type: 'string', value: 'LEVEL', description: 'debug, info, warn or error.' },
  ...outputFlags,
}

/** For commands that are clients of the state, which may be a remote server's. */
export const remoteFlags = {
  url: { type: 'string', value: 'URL', description: 'Use the server at this address (or CASTELLAN_URL).' },
  key: { type: 'string', value: 'KEY', description: 'API key for it (or CASTELLAN_API_KEY).' },
  ca: { type: 'string', value: 'FILE', description: 'Trust this authority for its certificate (or CASTELLAN_CA).' },
  'allow-plain-http': { type: 'boolean', description: 'Allow plain HTTP to another machine.' },
} as const satisfies Flags

export const clientFlags: Flags = { ...remoteFlags, ...commonFlags }

/** For commands that serve clients. There, `--mode` accepts these values too. */
export const zaruModeFlag: Flag = {
  type: 'string',
  value: 'MODE',
  description: 'Expose only the tools of chat, agentic, execute, architect or operator; --mode accepts these too.',
}

/** `whereElse` knows what else an unknown flag may mean, for the words before it. */
export function parseCommand(
  spec: CommandSpec,
  args: readonly string[],
  whereElse?: (flag: string) => string | undefined,
): ParsedCommand {
  const known = flagsOfAll(spec)
  const options = Object.fromEntries(
    Object.entries(known).map(([name, flag]) => [
      name,
      { type: flag.type, ...(flag.short === undefined ? {} : { short: flag.short }) },
    ]),
  )
  let parsed: ReturnType<typeof parseArgs>
  try {
    parsed = parseArgs({ args: [...args], options, allowPositionals: true, strict: true })
  } catch (error) {
    throw usageError(spec, args, error, whereElse)
  }
  const { values, positionals } = parsed
  const action = spec.actions === undefined ? undefined : requireAction(spec, positionals[0])
  const surplus = positionals[action === undefined ? (spec.positionalsMax ?? 0) : 1 + countOf(action.spec).max]
  if (surplus !== undefined) throw refusal(spec, `'${surplus}' is an unexpected argument.`, 'arguments', action?.name)
  if (action !== undefined) checkAction(spec, action, positionals.slice(1), Object.keys(values))
  return {
    positionals,
    text: (flag) => (typeof values[flag] === 'string' ? values[flag] : undefined),
    isSet: (flag) => values[flag] === true,
  }
}

type Action = Readonly<{ name: string; spec: ActionSpec }>

/** Every flag that some action has. A flag has the same type in all of them. */
export const flagsOfAll = ({ flags, actions = {} }: CommandSpec): Flags =>
  Object.assign({}, ...Object.values(actions).map((action) => action.flags ?? {}), flags) as Flags

/** The flags that one action accepts; without an action, those of the command. */
export const flagsOf = ({ flags, actions = {} }: CommandSpec, action: string | undefined): Flags =>
  action !== undefined && Object.hasOwn(actions, action) ? { ...actions[action]!.flags, ...flags } : flags

function requireAction(spec: CommandSpec, name: string | undefined): Action {
  const { actions = {} } = spec
  const names = Object.keys(actions)
  if (name === undefined) throw refusal(spec, `Say what to do: castellan ${spec.name} ${oneOf(names)}.`, 'action')
  if (Object.hasOwn(actions, name)) return { name, spec: actions[name]! }
  const nearest = nearestName(name, names)
  const hint = nearest === undefined ? '' : ` Did you mean '${nearest}'?`
  throw new AppError('ERR_INVALID_INPUT', `Unknown action '${name}'. Use ${oneOf(names)}.${hint}`, { field: 'action' })
}

function checkAction(
  spec: CommandSpec,
  { name, spec: action }: Action,
  words: readonly string[],
  flags: string[],
): void {
  const foreign = flags.find((flag) => !Object.hasOwn(flagsOf(spec, name), flag))
  if (foreign !== undefined) {
    const owners = Object.entries(spec.actions!).filter(([, other]) => Object.hasOwn(other.flags ?? {}, foreign))
    const where = `It is a flag of ${owners.map(([owner]) => owner).join(', ')}.`
    throw refusal(spec, `--${foreign} has no effect on castellan ${spec.name} ${name}. ${where}`, foreign, name)
  }
  const { names, min } = countOf(action)
  if (words.length < min) throw refusal(spec, `${names[words.length]} is missing.`, names[words.length]!, name)
  const { changes } = action
  if (changes !== undefined && !changes.some((flag) => flags.includes(flag))) {
    throw refusal(spec, `Nothing to change. Give ${oneOf(changes.map((flag) => `--${flag}`))}.`, 'arguments', name)
  }
}

const oneOf = (names: readonly string[]): string =>
  names.length === 1 ? names[0]! : `${names.slice(0, -1).join(', ')} or ${names.at(-1)}`

function countOf({ arguments: written = '' }: ActionSpec): Readonly<{ names: string[]; min: number; max: number }> {
  const names = written.split(' ').filter((name) => name !== '')
  const min = names.filter((name) => !name.startsWith('[')).length
  return { names, min, max: names.at(-1)?.endsWith('…') === true ? Number.POSITIVE_INFINITY : names.length }
}

function refusal(spec: CommandSpec, reason: string, field: string, action?: string): AppError {
  const help = `castellan ${[spec.name, action].filter(Boolean).join(' ')} --help`
  return new AppError('ERR_INVALID_INPUT', `${reason} See: ${help}`, { field })
}

function usageError(
  spec: CommandSpec,
  args: readonly string[],
  cause: unknown,
  whereElse: (flag: string) => string | undefined = () => undefined,
): AppError {
  const known = flagsOfAll(spec)
  const unknown = args.find((arg) => /^--[^=]/.test(arg) && known[arg.slice(2).split('=')[0]!] === undefined)
  const name = unknown?.slice(2).split('=')[0]
  if (name === 'url' && spec.onlyHere !== undefined) {
    return new AppError('ERR_INVALID_INPUT', `--url: ${spec.onlyHere}`, { field: 'url' })
  }
  const dashed = args.findIndex((arg, index) => isValued(known, arg) && args[index + 1]?.startsWith('-') === true)
  if (name === undefined && dashed !== -1) {
    const [flag, value] = [args[dashed]!, args[dashed + 1]!]
    const reason = `${flag} needs a value, and '${value}' begins with a dash. If it is meant, write ${flag}=${value}.`
    return refusal(spec, reason, flag.slice(2))
  }
  const nearest = name === undefined ? undefined : nearestName(name, Object.keys(known))
  const other = name === undefined ? undefined : whereElse(name)
  if (other !== undefined) return refusal(spec, `Unknown flag --${name}. ${other}`, name!)
  const reason =
    name === undefined
      ? `${(cause as Error).message.split('. ')[0]!.replace(/\.$/, '')}.`
      : `Unknown flag --${name}.${nearest === undefined ? '' : ` Did you mean --${nearest}?`}`
  return refusal(spec, reason, name ?? 'arguments')
}

/** Whether it is a flag that takes a value, which is not written with it. */
const isValued = (known: Flags, arg: string): boolean =>
  arg.startsWith('--') && Object.hasOwn(known, arg.slice(2)) && known[arg.slice(2)]!.type === 'string'

/**
 * Of a command with actions: all of them with their own flags, or only the named one. `width` is that of the terminal, if there is
 * one.
 */
export function commandHelp(spec: CommandSpec, chosen: string | undefined, width: number | undefined): string {
  const { actions = {} } = spec
  const action = chosen !== undefined && Object.hasOwn(actions, chosen) ? actions[chosen] : undefined
  const isTable = action === undefined && spec.actions !== undefined
  const usage = isTable ? ['ACTION', '[flags]'] : [action && chosen, action?.arguments ?? spec.positionals, '[flags]']
  const what = action?.summary ?? spec.description ?? spec.summary
  const flags = action ? flagsOf(spec, chosen) : spec.flags
  const parts = [
    `Usage: castellan ${[spec.name, ...usage].filter(Boolean).join(' ')}`,
    width === undefined ? what : wrapped(what, width).join('\n'),
    ...(isTable
      ? [
          `Actions:\n${Object.entries(actions)
            .map((entry) => actionLines(entry, width))
            .join('')}`.trimEnd(),
        ]
      : []),
    `${isTable ? 'Flags of every action' : 'Flags'}:\n${flagLines(flags, '  ', width)}`.trimEnd(),
  ]
  const examples = spec.examples?.filter((line) => action === undefined || line.includes(`${spec.name} ${chosen}`))
  if (examples !== undefined && examples.length > 0)
    parts.push(`Examples:\n${examples.map((line) => `  ${line}`).join('\n')}`)
  return `${parts.join('\n\n')}\n`
}

const actionLines = (
  [name, { arguments: written, summary, flags = {} }]: [string, ActionSpec],
  width: number | undefined,
): string =>
  `${helpLines(`  ${[name, written].filter(Boolean).join(' ')}`, summary, width)}${flagLines(flags, '    ', width)}`

const flagLines = (flags: Flags, indent: string, width: number | undefined): string =>
  Object.entries(flags)
    .map(([name, flag]) => {
      const short = flag.short === undefined ? '    ' : `-${flag.short}, `
      const left = `${indent}${short}--${name}${flag.value === undefined ? '' : ` ${flag.value}`}`
      return helpLines(left, flag.description, width)
    })
    .join('')

/** Where descriptions begin. */
const DESCRIPTION_COLUMN = 29

/** In a terminal the description continues below where it begins. */
function helpLines(left: string, description: string, width: number | undefined): string {
  const begin = `${left.padEnd(DESCRIPTION_COLUMN - 1)} `
  if (width === undefined) return `${begin}${description}\n`
  const lines = wrapped(description, Math.max(width - DESCRIPTION_COLUMN, DESCRIPTION_COLUMN))
  const below = ' '.repeat(DESCRIPTION_COLUMN)
  const first = begin.length + lines[0]!.length > width ? `${left}\n${below}` : begin
  return `${first}${lines.join(`\n${below}`)}\n`
}

export function requirePositional(parsed: ParsedCommand, index: number, name: string, spec: CommandSpec): string {
  const value = parsed.positionals[index]
  if (value !== undefined) return value
  throw refusal(spec, `${name} is missing.`, name)
}

/** A flag that is accepted in general, but changes nothing in this use of the command. */
export function refuseFlags(spec: CommandSpec, parsed: ParsedCommand, flags: readonly string[], why: string): void {
  const used = flags.find((flag) => parsed.text(flag) !== undefined || parsed.isSet(flag))
  if (used !== undefined) throw refusal(spec, `--${used} has no effect ${why}. Leave it out.`, used)
}
