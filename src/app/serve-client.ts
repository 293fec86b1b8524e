import { newLineSession } from '../contract/line-session.ts'
import { localOwner } from '../contract/principal.ts'
import { systemClock } from '../kernel/clock.ts'
import { systemRandom } from '../kernel/random.ts'
import { type EarlySession, withoutAnswers } from '../mcp/early-answer.ts'
import { stdioLines } from '../mcp/line-transport.ts'
import { rulesFor } from '../tools/runtime/call-rules.ts'
import { type PreparedTools, preparedTools } from '../tools/runtime/prepared-tools.ts'
import { type CommandContext, openCommandState } from './commands/context.ts'
import { exposureOfConfig, type LoadedConfig } from './config.ts'
import { bridgeSession } from './ownership/bridge-session.ts'
import { redactUrl } from './secret.ts'

const SESSION_BYTES = 12

/** Serves the client on the standard streams until it disconnects; `early` has answered its first requests. */
export async function serveClient(
  context: CommandContext,
  early: EarlySession,
  safeNames: boolean | undefined,
): Promise<number> {
  const spelling = safeNames === undefined ? {} : { safeNames }
  const { loaded, logger, state, failed } = await openCommandState(context)
  const { config } = loaded
  const local = state.local()
  logger.info(openedState(loaded), local === undefined ? { through: state.attachment.ownerPid() } : undefined)
  const session = newLineSession(systemClock.nowMs(), systemRandom.bytes(SESSION_BYTES).toString('base64url'))
  const hello = { transport: 'stdio', session, tools: exposureOfConfig(config), ...spelling } as const
  const { input, answered } = early.stop()
  const client = withoutAnswers(stdioLines(input, context.stdout), answered)
  // The owner cannot lose itself, so its own client needs no bridge. It answers its calls before it releases the state.
  if (local !== undefined) {
    const served = local.mcp.serveLines(client, {
      principal: localOwner,
      exposure: exposureOfConfig(config),
      transport: 'stdio',
      ...spelling,
    })
    try {
      await Promise.race([served.closed, context.ended, failed])
      return 0
    } finally {
      await state.attachment.close()
      await served.close()
    }
  }
  const isReadOnlyTool = isReadOnlyIn(preparedTools())
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

/** A client that passes no environment starts this with other defaults than its user has, so the effective ones are printed. */
function openedState({ config, sources, file }: LoadedConfig): string {
  const directory = `${config.data_dir} (by ${choiceOf[sources.get('data_dir') ?? 'default']})`
  const store = config.database_url === undefined ? '' : `, store: ${redactUrl(config.database_url.reveal())}`
  return `state: ${directory}${store}, mode: ${config.mode}, configuration: ${file ?? 'none'}`
}

const choiceOf = {
  flag: '--data-dir',
  env: 'CASTELLAN_DATA_DIR',
  file: 'the configuration',
  default: 'default; choose with --data-dir',
} as const

/** Whether a call may safely be repeated; a call through run_tool counts as the tool that it runs. */
const isReadOnlyIn =
  (prepared: PreparedTools) =>
  (name: string, args: unknown): boolean => {
    const onlyReads = (tool: string, supplied: unknown): boolean => {
      const definition = prepared.find(tool)?.definition
      return definition !== undefined && rulesFor(definition, supplied).effect === 'read'
    }
    if (name === 'run_tool') {
      const target = args as { tool_name?: unknown; tool_args?: unknown } | undefined
      return typeof target?.tool_name === 'string' && onlyReads(target.tool_name, target.tool_args)
    }
    return onlyReads(name, args)
  }
