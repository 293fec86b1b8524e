import { clientFlags, zaruModeFlag } from '../../cli/command.ts'
import { AppError } from '../../contract/app-error.ts'
import { answerEarly } from '../../mcp/early-answer.ts'
import { earlyTools } from '../early-tools.ts'
import type { RemoteChoice } from '../remote/remote-server.ts'
import { type Command, type CommandContext, flagSettings } from './context.ts'
import { remoteChoice } from './remote-choice.ts'

export const command: Command = {
  spec: {
    name: 'mcp',
    summary: 'Serve one client over standard input and output.',
    description:
      'Serve one MCP client over standard input and output. Several `mcp` processes and a `serve` can share one data directory: one process owns it and the others connect to that one. With --url, the client is connected to a server elsewhere: for editors that can only start programs.',
    flags: {
      tools: { type: 'string', value: 'WHICH', description: 'default, full, or names of toolsets and tools.' },
      'zaru-mode': zaruModeFlag,
      names: {
        type: 'string',
        value: 'SPELLING',
        description: 'Tool names: safe or documented. Default: what the client accepts.',
      },
      ...clientFlags,
    },
    examples: [
      'castellan mcp',
      'castellan mcp --tools full',
      'claude mcp add castellan -- castellan mcp',
      'castellan mcp --url https://castellan.example',
    ],
  },
  run,
}

async function run(context: CommandContext): Promise<number> {
  const safeNames = chosenSpelling(context.parsed.text('names'))
  const remote = remoteChoice(context)
  if (remote !== undefined) return await bridge(context, remote)
  const early = answerEarly({
    input: context.stdin,
    output: context.stdout,
    version: context.version,
    tools: earlyTools(context, safeNames),
    waitMs: EARLY_WAIT_MS,
  })
  await early.settled
  const { serveClient } = await import('../serve-client.ts')
  return await serveClient(context, early, safeNames)
}

async function bridge(context: CommandContext, remote: RemoteChoice): Promise<number> {
  const { openRemoteServer } = await import('../remote/remote-server.ts')
  const { serveRemoteClient } = await import('../remote/serve-remote-client.ts')
  const { tools, zaru_mode } = flagSettings(context)
  const chosen = { tools, mode: zaru_mode, names: context.parsed.text('names') }
  const query = Object.fromEntries(Object.entries(chosen).flatMap(([name, value]) => (value ? [[name, value]] : [])))
  const lines = (await openRemoteServer(remote, context.env)).openLines(query, 'program')
  await serveRemoteClient({ input: context.stdin, output: context.stdout }, lines, context.ended)
  return 0
}

/**
 * A client requests its list as soon as it has the handshake, which takes a while on a busy machine. Loading meanwhile would
 * delay the answer; other requests are not delayed.
 */
const EARLY_WAIT_MS = 500

function chosenSpelling(names: string | undefined): boolean | undefined {
  if (names === undefined) return undefined
  if (names === 'safe' || names === 'documented') return names === 'safe'
  throw new AppError('ERR_INVALID_INPUT', "--names must be 'safe' or 'documented'.", { field: 'names' })
}
