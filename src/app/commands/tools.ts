import { commonFlags } from '../../cli/command.ts'
import { parameterRows } from '../../cli/schema-fields.ts'
import { textTable } from '../../cli/terminal.ts'
import { AppError } from '../../contract/app-error.ts'
import { nearestName } from '../../kernel/nearest-name.ts'
import { type PreparedTool, type PreparedTools, preparedTools } from '../../tools/runtime/prepared-tools.ts'
import { type Command, type CommandContext, printJson } from './context.ts'

const spec = {
  name: 'tools',
  positionals: '[NAME]',
  positionalsMax: 1,
  summary: 'List the tools, or show one.',
  flags: { json: commonFlags['json']!, help: commonFlags['help']! },
  examples: ['castellan tools', 'castellan tools task_create', 'castellan tools --json'],
} as const

export const command: Command = { spec, run }

/** A tool that only other transports offer cannot be called from here, nor over stdio. */
const isCallable = ({ definition: { transports } }: PreparedTool): boolean =>
  transports === undefined || transports.includes('cli')

async function run(context: CommandContext): Promise<number> {
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
  context.terminal.out(
    textTable([
      ['TOOL', 'TOOLSET', 'EFFECT', 'WHAT IT DOES'],
      ...tools.map((tool) => [
        tool.name,
        tool.definition.toolset,
        tool.definition.effect,
        tool.definition.description.split(/(?<=\.) /)[0]!,
      ]),
    ]),
  )
  return 0
}

/** What a tool does and takes. */
export function toolHelp(
  { terminal }: Pick<CommandContext, 'terminal'>,
  prepared: PreparedTools,
  wanted: string,
): string {
  const { name, definition, listed } = requireTool(prepared, wanted)
  const rows = parameterRows(listed.inputSchema)
  const parameters = rows.length === 0 ? 'No parameters.\n' : `Parameters:\n${textTable(rows, '  ')}`
  const { transports } = definition
  const only =
    transports === undefined
      ? ''
      : `Only over ${transports.map((transport) => transportNames[transport]).join(', ')}.\n\n`
  return `${terminal.style('bold', name)}  ${definition.title}\n\n${definition.description}\n\n${only}${parameters}`
}

const transportNames = {
  stdio: 'stdio',
  http: 'Streamable HTTP',
  cli: 'the command line',
  rest: 'REST',
  seal: 'signed calls',
  agent: 'the loop of an agent',
  engine: 'runs',
} as const

function requireTool(prepared: PreparedTools, name: string): PreparedTool {
  const tool = prepared.find(name)
  if (tool !== undefined) return tool
  const nearest = nearestName(name, prepared.names)
  const hint = nearest === undefined ? '' : ` Did you mean '${nearest}'?`
  throw new AppError('ERR_UNKNOWN_TOOL', `There is no tool '${name}'.${hint} See: castellan tools`, { field: 'NAME' })
}
