import { commonFlags, requirePositional } from '../../cli/command.ts'
import { readClientConfig } from '../../cli/import-config.ts'
import { importReport, importReportText } from '../../cli/import-report.ts'
import { type Command, type CommandContext, printJson } from './context.ts'

const spec = {
  name: 'import',
  positionals: 'FILE',
  positionalsMax: 1,
  summary: "Read an MCP client's configuration and show the servers in it.",
  flags: { json: commonFlags['json']!, help: commonFlags['help']! },
  examples: ['castellan import ~/.cursor/mcp.json', 'castellan import ~/.codex/config.toml --json'],
} as const

export const command: Command = { spec, run }

async function run(context: CommandContext): Promise<number> {
  const result = await readClientConfig(requirePositional(context.parsed, 0, 'FILE', spec))
  if (context.json) printJson(context, importReport(result))
  else context.terminal.out(importReportText(result))
  return result.servers.length === 0 && result.problems.some((problem) => problem.severity === 'error') ? 2 : 0
}
