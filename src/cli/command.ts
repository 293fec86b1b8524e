import { parseArgs } from 'node:util'
import { AppError } from '../contract/app-error.ts'
import { nearestName } from '../kernel/nearest-name.ts'

/** A command of the program as data: parsing, help and the overview all come from it. */
type Flag = Readonly<{ type: 'string' | 'boolean'; value?: string; description: string; short?: string }>

export type CommandSpec = Readonly<{
  name: string
  summary: string
  /** What follows the name, for the usage line. */
  positionals?: string
  /** How many may follow; none when left out. */
  positionalsMax?: number
  description?: string
  flags: Readonly<Record<string, Flag>>
  examples?: readonly string[]
  /** Why it works on this machine alone, and what to do for a server elsewhere. */
  onlyHere?: string
}>

export type ParsedCommand = Readonly<{
  positionals: readonly string[]
  text(flag: string): string | undefined
  isSet(flag: string): boolean
}>

export const commonFlags: Readonly<Record<string, Flag>> = {
  'data-dir': { type: 'string', value: 'DIR', description: 'Directory of the embedded state.' },
  'database-url': { type: 'string', value: 'URL', description: 'Use PostgreSQL instead of the embedded store.' },
  config: { type: 'string', value: 'FILE', description: 'Configuration file.' },
  mode: { type: 'string', value: 'MODE', description: 'FULL, READONLY, TEST or MINIMAL.' },
  'log-level': { type: 'string', value: 'LEVEL', description: 'debug, info, warn or error.' },
  json: { type: 'boolean', description: 'Print JSON.' },
  help: { type: 'boolean', short: 'h', description: 'Show this help.' },
}

/** For commands that are clients of the state, which may be that of a server elsewhere. */
export const remoteFlags: Readonly<Record<string, Flag>> = {
  url: { type: 'string', value: 'URL', description: 'Use the server at this address (or CASTELLAN_URL).' },
  key: { type: 'string', value: 'KEY', description: 'API key for it (or CASTELLAN_API_KEY).' },
  ca: { type: 'string', value: 'FILE', description: 'Trust this authority for its certificate (or CASTELLAN_CA).' },
  'allow-plain-http': { type: 'boolean', description: 'Allow plain HTTP to another machine.' },
}

export const clientFlags: Readonly<Record<string, Flag>> = { ...remoteFlags, ...commonFlags }

/** For commands that serve clients. There, `--mode` takes these values too. */
export const zaruModeFlag: Flag = {
  type: 'string',
  value: 'MODE',
  description: 'Expose only the tools of chat, agentic, execute, architect or operator; --mode accepts these too.',
}

export function parseCommand(spec: CommandSpec, args: readonly string[]): ParsedCommand {
  const options = Object.fromEntries(
    Object.entries(spec.flags).map(([name, flag]) => [
      name,
      { type: flag.type, ...(flag.short === undefined ? {} : { short: flag.short }) },
    ]),
  )
  let parsed: ReturnType<typeof parseArgs>
  try {
    parsed = parseArgs({ args: [...args], options, allowPositionals: true, strict: true })
  } catch (error) {
    throw usageError(spec, args, error)
  }
  const { values, positionals } = parsed
  const surplus = positionals[spec.positionalsMax ?? 0]
  if (surplus !== undefined) {
    const reason = `'${surplus}' is an unexpected argument.`
    throw new AppError('ERR_INVALID_INPUT', `${reason} See: castellan ${spec.name} --help`, { field: 'arguments' })
  }
  return {
    positionals,
    text: (flag) => (typeof values[flag] === 'string' ? values[flag] : undefined),
    isSet: (flag) => values[flag] === true,
  }
}

function usageError(spec: CommandSpec, args: readonly string[], cause: unknown): AppError {
  const unknown = args.find((arg) => /^--[^=]/.test(arg) && spec.flags[arg.slice(2).split('=')[0]!] === undefined)
  const name = unknown?.slice(2).split('=')[0]
  if (name === 'url' && spec.onlyHere !== undefined) {
    return new AppError('ERR_INVALID_INPUT', `--url: ${spec.onlyHere}`, { field: 'url' })
  }
  const nearest = name === undefined ? undefined : nearestName(name, Object.keys(spec.flags))
  const reason =
    name === undefined
      ? `${(cause as Error).message.split('. ')[0]!.replace(/\.$/, '')}.`
      : `Unknown flag --${name}.${nearest === undefined ? '' : ` Did you mean --${nearest}?`}`
  return new AppError('ERR_INVALID_INPUT', `${reason} See: castellan ${spec.name} --help`, {
    field: name ?? 'arguments',
  })
}

export function commandHelp(spec: CommandSpec): string {
  const flags = Object.entries(spec.flags).map(([name, flag]) => {
    const left = `${flag.short === undefined ? '    ' : `-${flag.short}, `}--${name}${flag.value === undefined ? '' : ` ${flag.value}`}`
    return `  ${left.padEnd(26)} ${flag.description}`
  })
  const parts = [
    `Usage: castellan ${[spec.name, '[flags]', spec.positionals].filter(Boolean).join(' ')}`,
    spec.description ?? spec.summary,
    `Flags:\n${flags.join('\n')}`,
  ]
  if (spec.examples !== undefined) parts.push(`Examples:\n${spec.examples.map((line) => `  ${line}`).join('\n')}`)
  return `${parts.join('\n\n')}\n`
}

export function requirePositional(parsed: ParsedCommand, index: number, name: string, spec: CommandSpec): string {
  const value = parsed.positionals[index]
  if (value !== undefined) return value
  throw new AppError('ERR_INVALID_INPUT', `${name} is missing. See: castellan ${spec.name} --help`, { field: name })
}
