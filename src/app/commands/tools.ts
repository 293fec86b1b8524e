import { clientFlags } from '../../cli/command.ts'
import { wrappedTable } from '../../cli/fitted-table.ts'
import type { ListedToolView } from '../../cli/mcp-client.ts'
import { parameterRows } from '../../cli/schema-fields.ts'
import { AppError } from '../../contract/app-error.ts'
import { nearestName } from '../../kernel/nearest-name.ts'
import { type PreparedTool, type PreparedTools, preparedTools } from '../../tools/runtime/prepared-tools.ts'
import { type Command, type CommandContext, printJson } from './context.ts'
import { remoteChoice } from './remote-choice.ts'

const spec = {
  name: 'tools',
  positionals: '[NAME]',
  positionalsMax: 1,
  summary: 'List the tools, or show one.',
  description:
    'List the tools of this program, or show one. With --data-dir or --url: list those that you may use there, including the tools of MCP servers.',
  flags: clientFlags,
  examples: [
    'castellan tools',
    'castellan tools task_create',
    'castellan tools --json',
    'castellan tools --url https://castellan.example',
  ],
} as const

export const command: Command = { spec, run }

/** Flags that choose a state or how it is opened. Without one of them, and without a remote server, no state is opened. */
const stateFlags = ['data-dir', 'database-url', 'config', 'mode', 'log-level']

/** A tool that only other transports offer can be called neither from here nor over stdio. */
const isCallable = ({ definition: { transports } }: PreparedTool): boolean =>
  transports === undefined || transports.includes('cli')

async function run(context: CommandContext): Promise<number> {
  const isOfState = stateFlags.some((flag) => context.parsed.text(flag) !== undefined)
  if (isOfState || remoteChoice(context) !== undefined) return await showOffered(context)
  const prepared = preparedTools()
  const tools = prepared.tools.filter(isCallable)
  const name = context.parsed.positionals[0]
  if (name !== undefined) {
    if (context.json) printJson(context, requireTool(prepared, name).listed)
    else context.terminal.out(toolHelp(context, prepared, name))
    return 0
  }
  if (context.json) {
    printJson(
      context,
      tools.map((tool) => ({ toolset: tool.definition.toolset, ...tool.listed })),
    )
    return 0
  }
  context.terminal.out(toolTable(tools, context.terminal.width))
  return 0
}

/** A narrow terminal has no place for the toolset and the effect. */
export function toolTable(
  tools: readonly Pick<PreparedTool, 'name' | 'definition'>[],
  width: number | undefined,
): string {
  const isNarrow = width !== undefined && width < NARROW_COLUMNS
  const rows = tools.map(({ name, definition: { toolset, effect, description } }) => {
    const what = description.split(/(?<=\.) /)[0]!
    return isNarrow ? [name, what] : [name, toolset, effect, what]
  })
  return wrappedTable(
    [isNarrow ? ['TOOL', 'WHAT IT DOES'] : ['TOOL', 'TOOLSET', 'EFFECT', 'WHAT IT DOES'], ...rows],
    width,
  )
}
const NARROW_COLUMNS = 110

async function showOffered(context: CommandContext): Promise<number> {
  const { withClient } = await import('./client.ts')
  const tools = await withClient(context, (client) => client.listTools())
  const name = context.parsed.positionals[0]
  if (name !== undefined) {
    const tool = tools.find((listed) => listed.name === name)
    if (tool === undefined) {
      throw unknownTool(
        name,
        tools.map((listed) => listed.name),
      )
    }
    if (context.json) printJson(context, tool)
    else context.terminal.out(helpText(context, tool))
  } else if (context.json) printJson(context, tools)
  else {
    const rows = tools.map((tool) => [tool.name, (tool.description ?? tool.title ?? '').split(/(?<=\.) |\n/)[0]!])
    context.terminal.out(wrappedTable([['TOOL', 'WHAT IT DOES'], ...rows], context.terminal.width))
  }
  return 0
}

/** The description and parameters of a tool. */
export function toolHelp(
  { terminal }: Pick<CommandContext, 'terminal'>,
  prepared: PreparedTools,
  requested: string,
): string {
  const { name, definition, listed } = requireTool(prepared, requested)
  const { transports } = definition
  const only =
    transports === undefined
      ? ''
      : `Only over ${transports.map((transport) => transportNames[transport]).join(', ')}.\n\n`
  const { title, description } = definition
  return helpText({ terminal }, { name, title, description, inputSchema: listed.inputSchema }, only)
}

function helpText({ terminal }: Pick<CommandContext, 'terminal'>, tool: ListedToolView, only = ''): string {
  const { name, title = '', description = '', inputSchema } = tool
  const rows = parameterRows(inputSchema)
  const parameters = rows.length === 0 ? 'No parameters.\n' : `Parameters:\n${wrappedTable(rows, terminal.width, '  ')}`
  return `${terminal.style('bold', name)}  ${title}\n\n${description}\n\n${only}${parameters}`
}

const transportNames = {
  stdio: 'stdio',
  http: 'Streamable HTTP',
  cli: 'the command line',
  rest: 'REST',
  seal: 'signed calls',
  agent: 'the execution of an agent',
  engine: 'runs',
} as const

function requireTool(prepared: PreparedTools, name: string): PreparedTool {
  const tool = prepared.find(name)
  if (tool !== undefined) return tool
  throw unknownTool(name, prepared.names)
}

function unknownTool(name: string, names: readonly string[]): AppError {
  const nearest = nearestName(name, names)
  const hint = nearest === undefined ? '' : ` Did you mean '${nearest}'?`
  return new AppError('ERR_UNKNOWN_TOOL', `There is no tool '${name}'.${hint} See: castellan tools`, { field: 'NAME' })
}
