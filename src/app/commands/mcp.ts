import { commonFlags } from '../../cli/command.ts'
import { limits } from '../../contract/limits.ts'
import { localOwner } from '../../contract/principal.ts'
import { stdioTransport } from '../../mcp/line-transport.ts'
import { allTools } from '../../tools/index.ts'
import { bridgeSession } from '../ownership/bridge-session.ts'
import { streamLines } from '../ownership/line-transport.ts'
import { type Command, type CommandContext, openCommandState } from './context.ts'

export const command: Command = {
  spec: {
    name: 'mcp',
    summary: 'Serve one client over standard input and output.',
    description:
      'Serve one MCP client over standard input and output. Several of these, and a `serve`, may share one data directory: one owns the state and the others go through it.',
    flags: {
      tools: { type: 'string', value: 'WHICH', description: 'default, full, or names of toolsets and tools.' },
      ...commonFlags,
    },
    examples: ['castellan mcp', 'castellan mcp --tools full', 'claude mcp add castellan -- castellan mcp'],
  },
  run,
}

async function run(context: CommandContext): Promise<number> {
  const { loaded, logger, state, failed } = await openCommandState(context)
  const { config } = loaded
  const local = state.local()
  const hello = { door: 'stdio', tools: config.tools } as const
  // The owner cannot lose itself, so its own client needs no bridge.
  const session =
    local !== undefined
      ? local.mcp.serveLines(stdioTransport(context.stdin, context.stdout), {
          principal: localOwner,
          exposure: config.tools,
          door: 'stdio',
        })
      : bridgeSession({
          client: streamLines({
            input: context.stdin,
            output: context.stdout,
            lineBytesMax: limits.messageBytesMax,
            pauseInputWhenFull: true,
          }),
          attachment: state.attachment,
          hello,
          isReadOnlyTool: isReadOnly,
          logger,
        })
  try {
    await Promise.race([session.closed, context.ended, failed])
    return 0
  } finally {
    await session.close()
    await state.attachment.close()
  }
}

const readOnlyTools = new Set(
  Object.values(allTools)
    .flat()
    .filter((tool) => tool.effect === 'read')
    .map((tool) => tool.name),
)

/** Whether a call may be made twice without harm; a call through run_tool is what it runs. */
function isReadOnly(name: string, args: unknown): boolean {
  if (name !== 'run_tool') return readOnlyTools.has(name)
  const target = (args as { tool_name?: unknown } | undefined)?.tool_name
  return typeof target === 'string' && readOnlyTools.has(target)
}
