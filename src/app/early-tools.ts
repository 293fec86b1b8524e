import { connectMcpClient } from '../cli/mcp-client.ts'
import { type RequestedSpelling, spellingFor, traitsOf } from '../mcp/client-names.ts'
import type { EarlyTools } from '../mcp/early-answer.ts'
import { parseExposure } from '../mcp/exposure.ts'
import { isExposed, isNotRepeated, unknownExposureNames } from '../tools/runtime/exposure.ts'
import { preparedTools } from '../tools/runtime/prepared-tools.ts'
import { createSpelling } from '../tools/runtime/spelling.ts'
import type { Exposure, ListedTool } from '../tools/runtime/tool-host.ts'
import { type CommandContext, flagSettings, loadCommandConfig } from './commands/context.ts'
import { connectToOwner, ownerLines } from './ownership/connect-owner.ts'
import { mentions, plainSettings } from './plain-settings.ts'

/** Further settings that decide the list, besides the data directory and `--tools`. */
const LIST_FIELDS: readonly string[] = ['tools', 'zaru_mode']
const ASK_TIMEOUT_MS = 1_000

type Chosen = Readonly<{
  exposure: Exposure
  /** Undefined if no process owns the state for others. */
  dataDir: string | undefined
  /** Whether the list equals the definitions if nobody owns the state. */
  hasAll: boolean
}>

/**
 * The tools that a client on the standard streams will see: from the process that owns the state, if there is one, otherwise from
 * the definitions. Undefined if the mode of the server omits some.
 */
export function earlyTools(context: CommandContext, safeNames: boolean | undefined): EarlyTools {
  return async (clientName) => {
    const spelling = spellingFor(traitsOf(clientName), safeNames === undefined ? {} : { safeNames })
    const { exposure, dataDir, hasAll } = plainChoice(context) ?? (await configuredChoice(context))
    const hello = { transport: 'stdio', tools: exposure, ...spelling } as const
    const connected = dataDir === undefined ? undefined : await connectToOwner({ dataDir }, hello, ASK_TIMEOUT_MS)
    if (connected === undefined) return hasAll ? await preparedList(exposure, spelling) : undefined
    const client = await connectMcpClient({ lines: ownerLines(connected), version: context.version })
    const tools = await client.listTools()
    client.close()
    return tools as ListedTool[]
  }
}

/** The common case, decided without loading the configuration. */
function plainChoice(context: CommandContext): Chosen | undefined {
  const flags = flagSettings(context)
  const { env, workingDirectory } = context
  const configFile = context.parsed.text('config')
  const settings = plainSettings({ env, flags, configFile, workingDirectory, alsoRead: ['tools'] })
  if (settings === undefined || mentions(settings.fileText, LIST_FIELDS)) return undefined
  return { exposure: parseExposure(flags['tools']), dataDir: settings.dataDir, hasAll: true }
}

async function configuredChoice(context: CommandContext): Promise<Chosen> {
  const { config } = await loadCommandConfig(context)
  const { exposureOfConfig } = await import('./config.ts')
  const { mode, database_url } = config
  const isShared = database_url === undefined && (mode === 'FULL' || mode === 'READONLY')
  return {
    exposure: exposureOfConfig(config),
    dataDir: isShared ? config.data_dir : undefined,
    hasAll: mode === 'FULL' || mode === 'TEST',
  }
}

async function preparedList(
  exposure: Exposure,
  { safeNames, distinctNames }: Required<RequestedSpelling>,
): Promise<readonly ListedTool[] | undefined> {
  const { tools } = preparedTools()
  if (unknownExposureNames(exposure, tools).length > 0) return undefined
  const spelling = safeNames ? createSpelling(tools) : undefined
  return tools
    .filter((tool) => isExposed(tool, exposure))
    .filter(({ definition: { transports } }) => transports === undefined || transports.includes('stdio'))
    .filter(safeNames || distinctNames ? isNotRepeated : () => true)
    .map(({ listed, safeName }) => (spelling === undefined ? listed : { ...spelling.schema(listed), name: safeName }))
}
