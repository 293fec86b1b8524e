import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import type { Readable, Writable } from 'node:stream'
import { type CommandSpec, flagsOfAll, type ParsedCommand } from '../../cli/command.ts'
import { harmlessJson, type Terminal } from '../../cli/terminal.ts'
import { systemClock } from '../../kernel/clock.ts'
import { type Logger, silentLogger } from '../../kernel/logger.ts'
import { isZaruMode } from '../../tools/runtime/zaru-modes.ts'
import type { Config, LoadedConfig } from '../config.ts'
import type { Environment } from '../config-paths.ts'
import type { LogLevel } from '../config-schema.ts'
import type { State, StateDeps } from '../state.ts'
import { createStderrLogger } from '../stderr-logger.ts'

/** Everything that a command may use. A command never accesses the process directly. */
export type CommandContext = Readonly<{
  spec: CommandSpec
  parsed: ParsedCommand
  terminal: Terminal
  json: boolean
  env: Environment
  workingDirectory: string
  version: string
  /** The absolute path of the program, for commands that a person is told to run. */
  program: string
  stdin: Readable
  stdout: Writable
  /** Resolves at the first signal that tells the process to end. */
  ended: Promise<NodeJS.Signals>
  /** The program itself leaves it out, and hashes passwords at full cost. */
  passwordCost?: NonNullable<StateDeps['passwordCost']>
}>

export type Command = Readonly<{
  spec: CommandSpec
  run(context: CommandContext): Promise<number>
  /** What an unknown flag may mean instead, as a sentence. */
  unknownFlag?(flag: string, words: readonly string[]): string | undefined
  /** Replaces the generated text of --help; undefined to use that. */
  help?(context: Pick<CommandContext, 'parsed' | 'terminal'>): Promise<string | undefined>
}>

/** An argument's path: relative to the working directory. */
export const pathOf = ({ workingDirectory }: CommandContext, path: string): string => resolve(workingDirectory, path)

const flagFields: Readonly<Record<string, string>> = {
  'data-dir': 'data_dir',
  'database-url': 'database_url',
  mode: 'mode',
  'log-level': 'log_level',
  host: 'host',
  port: 'port',
  'tls-cert': 'tls_cert',
  'tls-key': 'tls_key',
  'public-url': 'public_url',
  tools: 'tools',
  'zaru-mode': 'zaru_mode',
}

/** The settings of a command's flags, by configuration field. */
export function flagSettings(context: CommandContext): Record<string, string | undefined> {
  const { parsed } = context
  const known = flagsOfAll(context.spec)
  const flags: Record<string, string | undefined> = Object.fromEntries(
    Object.entries(flagFields)
      .filter(([flag]) => known[flag] !== undefined && parsed.text(flag) !== undefined)
      .map(([flag, field]) => [field, parsed.text(flag)]),
  )
  const { mode } = flags
  if (mode !== undefined && isZaruMode(mode) && known['zaru-mode'] !== undefined) {
    delete flags['mode']
    flags['zaru_mode'] ??= mode
  }
  return flags
}

export async function loadCommandConfig(context: CommandContext): Promise<LoadedConfig> {
  const configFile = context.parsed.text('config')
  const { loadConfig } = await import('../config.ts')
  return await loadConfig({
    env: context.env,
    flags: flagSettings(context),
    workingDirectory: context.workingDirectory,
    ...(configFile === undefined ? {} : { configFile }),
  })
}

export type OpenedState = Readonly<{
  loaded: LoadedConfig
  logger: Logger
  state: State
  /** Rejects if the state that this process owns cannot be opened; race it against whatever is awaited. */
  failed: Promise<never>
  /** To be set once this process serves HTTP: links then lead there. */
  listening: { origin?: string }
}>

/** Joins the state that the flags name. The caller leaves it with `state.attachment.close()`. */
export async function openCommandState(
  context: CommandContext,
  leastLogLevel?: LogLevel | 'none',
  lifetime: 'long' | 'one-call' = 'long',
): Promise<OpenedState> {
  const loaded = await loadCommandConfig(context)
  const { requireKnownTools } = await import('../require-known-tools.ts')
  await requireKnownTools(loaded)
  const logger =
    leastLogLevel === 'none'
      ? silentLogger
      : createStderrLogger(leastLogLevel ?? loaded.config.log_level, context.terminal)
  for (const warning of loaded.warnings) logger.warn(warning)
  const isNew = lifetime === 'one-call' && hasNoState(loaded.config)
  const failed = Promise.withResolvers<never>()
  failed.promise.catch(() => {})
  const { systemRandom } = await import('../../kernel/random.ts')
  const { openState } = await import('../state.ts')
  const { addressOfLater } = await import('../link-origin.ts')
  const listening: OpenedState['listening'] = {}
  const state = await openState({
    config: loaded.config,
    isModeChosen: (loaded.sources.get('mode') ?? 'default') !== 'default',
    version: context.version,
    clock: systemClock,
    random: systemRandom,
    logger,
    env: context.env,
    onOpenFailed: failed.reject,
    ...(context.passwordCost && { passwordCost: context.passwordCost }),
    linksAt() {
      if (listening.origin !== undefined) return { origin: listening.origin }
      return lifetime === 'one-call' ? addressOfLater(loaded.config) : undefined
    },
    ...(loaded.file === undefined ? {} : { configPath: loaded.file }),
  })
  if (isNew && state.local() !== undefined) context.terminal.error(newState(loaded.config))
  return { loaded, logger, state, failed: failed.promise, listening }
}

const hasNoState = ({ data_dir, database_url, mode }: Config): boolean =>
  database_url === undefined && mode !== 'TEST' && mode !== 'MINIMAL' && !existsSync(join(data_dir, 'castellan.db'))

/** A server tells its client where its state is. A command would only show that there is nothing in it. */
const newState = ({ data_dir }: Config): string =>
  `There was no state in ${data_dir}, so a new one was created. If you meant another, name it with --data-dir.\n`

export function printJson(context: CommandContext, value: unknown): void {
  context.terminal.out(`${harmlessJson(value, context.json ? undefined : 2)}\n`)
}
