import { AppError } from '../contract/app-error.ts'
import { localOwner } from '../contract/principal.ts'
import { withoutAnswer } from '../mcp/early-answer.ts'
import { stdioLines } from '../mcp/line-transport.ts'
import { allTools } from '../tools/index.ts'
import { rulesFor } from '../tools/runtime/call-rules.ts'
import { type CommandContext, openCommandState } from './commands/context.ts'
import { exposureOfConfig } from './config.ts'
import { bridgeSession } from './ownership/bridge-session.ts'

/** Serves the client on the standard streams until it leaves. `answered` is the handshake that it has had already. */
export async function serveClient(context: CommandContext, answered: string | number | undefined): Promise<number> {
  const spelling = chosenSpelling(context.parsed.text('names'))
  const { loaded, logger, state, failed } = await openCommandState(context)
  const { config } = loaded
  const local = state.local()
  const hello = { door: 'stdio', tools: exposureOfConfig(config), ...spelling } as const
  const client = withoutAnswer(stdioLines(context.stdin, context.stdout), answered)
  // The owner cannot lose itself, so its own client needs no bridge. It answers its calls before it lets the state go.
  if (local !== undefined) {
    const session = local.mcp.serveLines(client, {
      principal: localOwner,
      exposure: exposureOfConfig(config),
      door: 'stdio',
      ...spelling,
    })
    try {
      await Promise.race([session.closed, context.ended, failed])
      return 0
    } finally {
      await state.attachment.close()
      await session.close()
    }
  }
  const bridge = bridgeSession({ client, attachment: state.attachment, hello, isReadOnlyTool: isReadOnly, logger })
  try {
    await Promise.race([bridge.closed, context.ended, failed])
    await bridge.leave()
    return 0
  } finally {
    bridge.close()
    await state.attachment.close()
  }
}

function chosenSpelling(names: string | undefined): { safeNames?: boolean } {
  if (names === undefined) return {}
  if (names === 'safe' || names === 'documented') return { safeNames: names === 'safe' }
  throw new AppError('ERR_INVALID_INPUT', "--names must be 'safe' or 'documented'.", { field: 'names' })
}

const definitions = new Map(
  Object.values(allTools)
    .flat()
    .map((tool) => [tool.name, tool]),
)

/** Whether a call may be made twice without harm; a call through run_tool is what it runs. */
function isReadOnly(name: string, args: unknown): boolean {
  if (name === 'run_tool') {
    const target = args as { tool_name?: unknown; tool_args?: unknown } | undefined
    return typeof target?.tool_name === 'string' && onlyReads(target.tool_name, target.tool_args)
  }
  return onlyReads(name, args)
}

function onlyReads(name: string, args: unknown): boolean {
  const definition = definitions.get(name)
  return definition !== undefined && rulesFor(definition, args).effect === 'read'
}
