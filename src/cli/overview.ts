import { AppError } from '../contract/app-error.ts'
import { nearestName } from '../kernel/nearest-name.ts'

export function overview(commands: Readonly<Record<string, Readonly<{ summary: string }>>>, version: string): string {
  const width = Math.max(...Object.keys(commands).map((name) => name.length))
  const lines = Object.entries(commands).map(([name, { summary }]) => `  ${name.padEnd(width)}  ${summary}`)
  return [
    `Castellan ${version}: workspaces, agents, governance and a provable record, as MCP tools.`,
    '',
    'Usage: castellan COMMAND [flags]',
    '',
    'Commands:',
    ...lines,
    '',
    'castellan COMMAND --help shows the flags and examples of a command.',
    'Exit codes: 0 done, 1 internal, 2 bad input, 3 not found, 4 denied, 5 conflict, 6 unavailable.',
    '',
  ].join('\n')
}

export function unknownCommand(name: string, names: readonly string[]): AppError {
  const nearest = nearestName(name, names)
  const hint = nearest === undefined ? '' : ` Did you mean '${nearest}'?`
  return new AppError('ERR_INVALID_INPUT', `There is no command '${name}'.${hint} See: castellan --help`, {
    field: 'command',
  })
}
