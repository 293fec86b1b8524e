import type { Readable, Writable } from 'node:stream'
import type { CommandSpec, ParsedCommand } from '../../cli/command.ts'
import { connectMcpClient, type McpClient } from '../../cli/mcp-client.ts'
import type { Terminal } from '../../cli/terminal.ts'
import { systemClock } from '../../kernel/clock.ts'
import type { Logger } from '../../kernel/logger.ts'
import { systemRandom } from '../../kernel/random.ts'
import { type Environment, type LoadedConfig, loadConfig } from '../config.ts'
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
  stdin: Readable
  stdout: Writable
  /** Resolves at the first signal that asks the process to end. */
  ended: Promise<NodeJS.Signals>
}>

export type Command = Readonly<{ spec: CommandSpec; run(context: CommandContext): Promise<number> }>

const flagFields: Readonly<Record<string, string>> = {
  'data-dir': 'data_dir',
  'database-url': 'database_url',
  mode: 'mode',
  'log-level': 'log_level',
  host: 'host',
  port: 'port',
  tools: 'tools',
}

export async function loadCommandConfig(context: CommandContext): Promise<LoadedConfig> {
  const { parsed } = context
  const flags = Object.fromEntries(
    Object.entries(flagFields)
      .filter(([flag]) => context.spec.flags[flag] !== undefined && parsed.text(flag) !== undefined)
      .map(([flag, field]) => [field, parsed.text(flag)]),
  )
  const configFile = parsed.text('config')
  return await loadConfig({
    env: context.env,
    flags,
    workingDirectory: context.workingDirectory,
    ...(configFile === undefined ? {} : { configFile }),
  })
}

/** Opens the state that the flags name, talks to it as a client, and leaves everything as it was. */
export async function withClient<T>(
  context: CommandContext,
  work: (client: McpClient, loaded: LoadedConfig) => Promise<T>,
): Promise<T> {
  const loaded = await loadCommandConfig(context)
  const { openState } = await import('../state.ts')
  const failed = Promise.withResolvers<never>()
  failed.promise.catch(() => {})
  const logger = createStderrLogger('error', context.terminal)
  const state = await openState({
    config: loaded.config,
    version: context.version,
    clock: systemClock,
    random: systemRandom,
    logger,
    env: context.env,
    workingDirectory: context.workingDirectory,
    onOpenFailed: failed.reject,
  })
  try {
    const { transport } = await state.attachment.openLines({ door: 'cli', tools: 'full' }, CONNECT_TIMEOUT_MS)
    const connect = connectMcpClient({
      lines: transport,
      version: context.version,
      onProgress: ({ progress, total, message }) =>
        context.terminal.progress(message ?? (total === undefined ? `${progress}` : `${progress} of ${total}`)),
    })
    const client = await Promise.race([connect, failed.promise])
    const result = await Promise.race([work(client, loaded), failed.promise])
    client.close()
    return result
  } finally {
    context.terminal.progressDone()
    await state.attachment.close()
  }
}

const CONNECT_TIMEOUT_MS = 5_000

export const loggerFor = (context: CommandContext, loaded: LoadedConfig): Logger =>
  createStderrLogger(loaded.config.log_level, context.terminal)

export function printJson(context: CommandContext, value: unknown): void {
  context.terminal.out(`${JSON.stringify(value, null, context.json ? undefined : 2)}\n`)
}
