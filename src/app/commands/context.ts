import type { Readable, Writable } from 'node:stream'
import type { CommandSpec, ParsedCommand } from '../../cli/command.ts'
import { connectMcpClient, type McpClient } from '../../cli/mcp-client.ts'
import type { Terminal } from '../../cli/terminal.ts'
import { systemClock } from '../../kernel/clock.ts'
import type { Logger } from '../../kernel/logger.ts'
import { systemRandom } from '../../kernel/random.ts'
import { isZaruMode } from '../../tools/runtime/zaru-modes.ts'
import { type Environment, type LoadedConfig, loadConfig } from '../config.ts'
import type { LogLevel } from '../config-schema.ts'
import { requireKnownTools } from '../require-known-tools.ts'
import type { State } from '../state.ts'
import { createStderrLogger } from '../stderr-logger.ts'

/** What a command is given. Nothing in a command reaches for the process by itself. */
export type CommandContext = Readonly<{
  spec: CommandSpec
  parsed: ParsedCommand
  terminal: Terminal
  json: boolean
  env: Environment
  workingDirectory: string
  version: string
  /** The absolute path of the program, for what a person is told to run elsewhere. */
  program: string
  stdin: Readable
  stdout: Writable
  /** Resolves at the first signal that asks the process to end. */
  ended: Promise<NodeJS.Signals>
}>

export type Command = Readonly<{
  spec: CommandSpec
  run(context: CommandContext): Promise<number>
  /** Shown for --help in place of what follows from the spec; undefined when that is wanted. */
  help?(context: Pick<CommandContext, 'parsed' | 'terminal'>): Promise<string | undefined>
}>

const flagFields: Readonly<Record<string, string>> = {
  'data-dir': 'data_dir',
  'database-url': 'database_url',
  mode: 'mode',
  'log-level': 'log_level',
  host: 'host',
  port: 'port',
  tools: 'tools',
  'zaru-mode': 'zaru_mode',
}

export async function loadCommandConfig(context: CommandContext): Promise<LoadedConfig> {
  const { parsed } = context
  const flags: Record<string, string | undefined> = Object.fromEntries(
    Object.entries(flagFields)
      .filter(([flag]) => context.spec.flags[flag] !== undefined && parsed.text(flag) !== undefined)
      .map(([flag, field]) => [field, parsed.text(flag)]),
  )
  const { mode } = flags
  if (mode !== undefined && isZaruMode(mode) && context.spec.flags['zaru-mode'] !== undefined) {
    delete flags['mode']
    flags['zaru_mode'] ??= mode
  }
  const configFile = parsed.text('config')
  return await loadConfig({
    env: context.env,
    flags,
    workingDirectory: context.workingDirectory,
    ...(configFile === undefined ? {} : { configFile }),
  })
}

export type OpenedState = Readonly<{
  loaded: LoadedConfig
  logger: Logger
  state: State
  /** Rejects when the state that this process owns cannot be opened; race it against whatever is waited for. */
  failed: Promise<never>
}>

/** Joins the state that the flags name. The caller leaves it with `state.attachment.close()`. */
export async function openCommandState(context: CommandContext, leastLogLevel?: LogLevel): Promise<OpenedState> {
  const loaded = await loadCommandConfig(context)
  await requireKnownTools(loaded)
  const logger = createStderrLogger(leastLogLevel ?? loaded.config.log_level, context.terminal)
  for (const warning of loaded.warnings) logger.warn(warning)
  const failed = Promise.withResolvers<never>()
  failed.promise.catch(() => {})
  const { openState } = await import('../state.ts')
  const state = await openState({
    config: loaded.config,
    isModeChosen: (loaded.sources.get('mode') ?? 'default') !== 'default',
    version: context.version,
    clock: systemClock,
    random: systemRandom,
    logger,
    env: context.env,
    onOpenFailed: failed.reject,
    ...(loaded.file === undefined ? {} : { configPath: loaded.file }),
  })
  return { loaded, logger, state, failed: failed.promise }
}

/** A client of the state, for commands that only call tools. */
export async function connectCommandClient(
  context: CommandContext,
  { state, failed }: OpenedState,
): Promise<McpClient> {
  const { transport } = await state.attachment.openLines({ door: 'cli', tools: 'full' }, CONNECT_TIMEOUT_MS)
  const client = connectMcpClient({
    lines: transport,
    version: context.version,
    onProgress: ({ progress, total, message }) => {
      const text = message ?? (total === undefined ? `${progress}` : `${progress} of ${total}`)
      // What has come how far is one line; more is a question that somebody has to answer.
      if (text.includes('\n')) context.terminal.notice(text)
      else context.terminal.progress(text)
    },
  })
  return await Promise.race([client, failed])
}

/** Opens the state, talks to it as a client, and leaves everything as it was. */
export async function withClient<T>(
  context: CommandContext,
  work: (client: McpClient, opened: OpenedState) => Promise<T>,
): Promise<T> {
  const opened = await openCommandState(context, 'error')
  try {
    const client = await connectCommandClient(context, opened)
    const result = await Promise.race([work(client, opened), opened.failed])
    client.close()
    return result
  } finally {
    context.terminal.progressDone()
    await opened.state.attachment.close()
  }
}

const CONNECT_TIMEOUT_MS = 5_000

/** Characters that a terminal obeys or that turn the direction of text: others wrote them into what is printed here. */
const UNSAFE_TO_SHOW = /[\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g

export function printJson(context: CommandContext, value: unknown): void {
  const text = JSON.stringify(value, null, context.json ? undefined : 2)
  const escaped = text.replace(UNSAFE_TO_SHOW, (character) => {
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
  })
  context.terminal.out(`${escaped}\n`)
}
