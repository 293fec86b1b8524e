import { type ClientLines, connectMcpClient, type McpClient } from '../../cli/mcp-client.ts'
import { silentLogger } from '../../kernel/logger.ts'
import type { LineTransport } from '../../mcp/line-transport.ts'
import { connectToOwner, ownerLines } from '../ownership/connect-owner.ts'
import { plainSettings } from '../plain-settings.ts'
import { createStderrLogger } from '../stderr-logger.ts'
import { type CommandContext, flagSettings, type OpenedState, openCommandState } from './context.ts'
import { remoteChoice } from './remote-choice.ts'
import { reportVariables } from './report-variables.ts'

/** The state as a command that only calls tools needs it. */
export type ClientState = Readonly<{
  /** A new connection to the process that owns the state now. */
  connect(): Promise<McpClient>
  /** Whether this process opened the state itself: runs continue only while it lives. */
  ownsState(): boolean
}>

/** Problems of the state are printed, unless the answer is about them. */
type Problems = 'print' | 'in-answer'

const CONNECT_TIMEOUT_MS = 5_000
const hello = { transport: 'cli', tools: 'full' } as const

/** A client of a state that this process has opened or joined. */
export async function connectCommandClient(
  context: CommandContext,
  { state, failed }: OpenedState,
): Promise<McpClient> {
  const { transport } = await state.attachment.openLines(hello, CONNECT_TIMEOUT_MS)
  return await Promise.race([clientOver(context, transport), failed])
}

/**
 * Connects to the state as a client, local or remote, and restores everything afterwards. If a server runs here, only its socket
 * is needed and little is loaded; otherwise this process opens the state for the duration of the work.
 */
export async function withClient<T>(
  context: CommandContext,
  work: (client: McpClient, state: ClientState) => Promise<T>,
  problems: Problems = 'print',
): Promise<T> {
  await reportVariables(context)
  const remote = remoteChoice(context)
  if (remote !== undefined) {
    const { withRemoteClient } = await import('./remote-client.ts')
    const over = (lines: ClientLines) => clientOver(context, lines)
    return await withRemoteClient(remote, context.env, over, work).finally(() => context.terminal.progressDone())
  }
  let opened: OpenedState | undefined
  const state: ClientState = {
    async connect() {
      if (opened === undefined) {
        const client = await connectToRunning(context, problems)
        if (client !== undefined) return client
        opened = await openCommandState(context, problems === 'print' ? 'error' : 'none', 'one-call')
      }
      return await connectCommandClient(context, opened)
    },
    ownsState: () => opened?.state.local() !== undefined,
  }
  try {
    const client = await state.connect()
    const working = work(client, state)
    const result = await (opened === undefined ? working : Promise.race([working, opened.failed]))
    client.close()
    return result
  } finally {
    context.terminal.progressDone()
    await opened?.state.attachment.close()
  }
}

async function connectToRunning(context: CommandContext, problems: Problems): Promise<McpClient | undefined> {
  const settings = plainSettings({
    env: context.env,
    flags: flagSettings(context),
    configFile: context.parsed.text('config'),
    workingDirectory: context.workingDirectory,
  })
  return settings && (await connectToOwnerOf(context, settings, problems))
}

/** A client of the process that owns the state; undefined where none answers. */
export async function connectToOwnerOf(
  context: CommandContext,
  settings: Parameters<typeof connectToOwner>[0],
  problems: Problems = 'print',
): Promise<McpClient | undefined> {
  const connected = await connectToOwner(settings, hello, CONNECT_TIMEOUT_MS)
  const logger = problems === 'print' ? createStderrLogger('error', context.terminal) : silentLogger
  for (const problem of connected?.problems ?? []) logger.error(problem)
  return connected && clientOver(context, ownerLines(connected))
}

const clientOver = (
  context: CommandContext,
  lines: Pick<LineTransport, 'onLine' | 'onClose'> & { send(line: string): unknown; close(): unknown },
): Promise<McpClient> =>
  connectMcpClient({
    lines,
    version: context.version,
    onProgress: ({ progress, total, message }) => {
      const text = message ?? (total === undefined ? `${progress}` : `${progress} of ${total}`)
      // Progress is one line; more lines are a question that a person has to answer.
      if (text.includes('\n')) context.terminal.notice(text)
      else context.terminal.progress(text)
    },
  })
