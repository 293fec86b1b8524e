import { commonFlags } from '../../cli/command.ts'
import { parameterRows } from '../../cli/schema-fields.ts'
import { textTable } from '../../cli/terminal.ts'
import { AppError } from '../../contract/app-error.ts'
import { nearestName } from '../../kernel/nearest-name.ts'
import { allTools } from '../../tools/index.ts'
import { type CatalogTool, createCatalog } from '../../tools/runtime/catalog.ts'
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

async function run(context: CommandContext): Promise<number> {
  const { tools, find, names } = createCatalog(allTools)
  const name = context.parsed.positionals[0]
  if (name !== undefined) {
    const tool = find(name)
    if (tool === undefined) throw unknownTool(name, names)
    if (context.json) printJson(context, tool.listed)
    else context.terminal.out(describe(context, tool))
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

function describe({ terminal }: CommandContext, { name, definition, listed }: CatalogTool): string {
  const rows = parameterRows(listed.inputSchema)
  const parameters = rows.length === 0 ? 'No parameters.\n' : `Parameters:\n${textTable(rows, '  ')}`
  return `${terminal.style('bold', name)}  ${definition.title}\n\n${definition.description}\n\n${parameters}`
}

function unknownTool(name: string, names: readonly string[]): AppError {
  const nearest = nearestName(name, names)
  const hint = nearest === undefined ? '' : ` Did you mean '${nearest}'?`
  return new AppError('ERR_UNKNOWN_TOOL', `There is no tool '${name}'.${hint} See: castellan tools`, { field: 'NAME' })
}
