import { commonFlags } from '../../cli/command.ts'
import { textTable } from '../../cli/terminal.ts'
import { allTools } from '../../tools/index.ts'
import { createCatalog } from '../../tools/runtime/catalog.ts'
import { paramsLine } from '../../tools/runtime/search/params-line.ts'
import { type Command, type CommandContext, printJson } from './context.ts'

const spec = {
  name: 'tools',
  positionals: '[NAME]',
  summary: 'List the tools, or show one.',
  flags: { json: commonFlags['json']!, help: commonFlags['help']! },
  examples: ['castellan tools', 'castellan tools task_create', 'castellan tools --json'],
} as const

export const command: Command = { spec, run }

async function run(context: CommandContext): Promise<number> {
  const { tools, find } = createCatalog(allTools)
  const name = context.parsed.positionals[0]
  if (name !== undefined) {
    const tool = find(name)
    const { AppError } = await import('../../contract/app-error.ts')
    if (tool === undefined)
      throw new AppError('ERR_UNKNOWN_TOOL', `There is no tool '${name}'. See: castellan tools`, {})
    if (context.json) printJson(context, tool.listed)
    else {
      const parameters = paramsLine(tool.listed.inputSchema).split('; ').join('\n  ')
      context.terminal.out(
        `${context.terminal.style('bold', tool.name)}  ${tool.definition.title}\n\n${tool.definition.description}\n\nParameters:\n  ${parameters || '(none)'}\n`,
      )
    }
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
