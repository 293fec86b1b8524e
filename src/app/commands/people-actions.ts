import { type CommandSpec, requirePositional } from '../../cli/command.ts'
import { textTable } from '../../cli/terminal.ts'
import { AppError } from '../../contract/app-error.ts'
import { withClient } from './client.ts'
import { type CommandContext, printJson } from './context.ts'

type Answer = Record<string, unknown>
type Action = (context: CommandContext) => Promise<number>

/** A command whose first word says what to do. */
export async function runAction(
  context: CommandContext,
  spec: CommandSpec,
  actions: Readonly<Record<string, Action>>,
): Promise<number> {
  const names = Object.keys(actions)
  const asked = requirePositional(context.parsed, 0, names.join('|'), spec)
  const action = Object.hasOwn(actions, asked) ? actions[asked] : undefined
  if (action !== undefined) return await action(context)
  const message = `Unknown action '${asked}'. Use ${names.slice(0, -1).join(', ')} or ${names.at(-1)}.`
  throw new AppError('ERR_INVALID_INPUT', message, { field: 'action' })
}

/** Calls a tool with what was given; what was left out is left to the tool. */
export async function ask(context: CommandContext, tool: string, args: Answer): Promise<Answer> {
  const present = Object.fromEntries(Object.entries(args).filter(([, value]) => value !== undefined))
  return (await withClient(context, (client) => client.callTool(tool, present))).answer
}

export const listed = (text: string | undefined): string[] | undefined =>
  text
    ?.split(',')
    .map((entry) => entry.trim())
    .filter((entry) => entry !== '')

/** The rows of an answer as a table, or the answer as JSON where that is asked for. */
export function printRows(context: CommandContext, answer: Answer, list: string, columns: readonly string[]): number {
  if (context.json) {
    printJson(context, answer)
    return 0
  }
  const rows = (answer[list] as Answer[]).map((row) => columns.map((column) => cellOf(row[column])))
  context.terminal.out(textTable([columns.map((column) => column.toUpperCase()), ...rows]))
  return 0
}

function cellOf(value: unknown): string {
  if (value === null || value === undefined || value === '') return '-'
  if (!Array.isArray(value)) return String(value)
  return (
    value.map((entry) => (typeof entry === 'object' ? String((entry as Answer)['email']) : String(entry))).join(', ') ||
    '-'
  )
}

/** One sentence for a person, or the answer as JSON. */
export function printOutcome(context: CommandContext, answer: Answer, sentence: string): number {
  if (context.json) printJson(context, answer)
  else context.terminal.out(`${sentence}\n`)
  return 0
}

/** A link is the answer itself, so that a script can take it; what to do with it stands beside. */
export function printLink(context: CommandContext, answer: Answer, hint: string): number {
  if (context.json) printJson(context, answer)
  else {
    context.terminal.out(`${answer['link']}\n`)
    context.terminal.error(`${hint}\n`)
  }
  return 0
}
