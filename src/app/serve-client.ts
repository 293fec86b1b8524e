import { localOwner } from '../contract/principal.ts'
import { type EarlySession, withoutAnswers } from '../mcp/early-answer.ts'
import { stdioLines } from '../mcp/line-transport.ts'
import { rulesFor } from '../tools/runtime/call-rules.ts'
import { loadPreparedTools, type PreparedTools } from '../tools/runtime/prepared-tools.ts'
import { type CommandContext, openCommandState } from './commands/context.ts'
import { exposureOfConfig } from './config.ts'
import { bridgeSession } from './ownership/bridge-session.ts'

/** Serves the client on the standard streams until it leaves; `early` has answered its first questions. */
export async function serveClient(
  context: CommandContext,
  early: EarlySession,
  safeNames: boolean | undefined,
): Promise<number> {
  const spelling = safeNames === undefined ? {} : { safeNames }
  const { loaded, logger, state, failed } = await openCommandState(context)
  const { config } = loaded
  const local = state.local()
  const hello = { door: 'stdio', tools: exposureOfConfig(config), ...spelling } as const
  const { input, answered } = early.stop()
  const client = withoutAnswers(stdioLines(input, context.stdout), answered)
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
  const isReadOnlyTool = isReadOnlyIn(await loadPreparedTools())
  const bridge = bridgeSession({ client, attachment: state.attachment, hello, isReadOnlyTool, logger })
  try {
    await Promise.race([bridge.closed, context.ended, failed])
    await bridge.leave()
    return 0
  } finally {
    bridge.close()
    await state.attachment.close()
  }
}

/** Whether a call may be made twice without harm; a call through run_tool is what it runs. */
const isReadOnlyIn =
  (prepared: PreparedTools) =>
  (name: string, args: unknown): boolean => {
    const onlyReads = (tool: string, given: unknown): boolean => {
      const definition = prepared.find(tool)?.definition
      return definition !== undefined && rulesFor(definition, given).effect === 'read'
    }
    if (name === 'run_tool') {
      const target = args as { tool_name?: unknown; tool_args?: unknown } | undefined
      return typeof target?.tool_name === 'string' && onlyReads(target.tool_name, target.tool_args)
    }
    return onlyReads(name, args)
  }
