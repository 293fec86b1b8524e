import { type ActionSpec, type CommandSpec, flagsOf } from '../../cli/command.ts'
import { fittedTable } from '../../cli/fitted-table.ts'
import { AppError } from '../../contract/app-error.ts'
import { withClient } from './client.ts'
import { type Command, type CommandContext, printJson } from './context.ts'

type Answer = Record<string, unknown>
const TIME = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.\d+Z$/

/** The rights of a person or a program that a command makes. */
export const rightsFlags = {
  role: { type: 'string', value: 'ROLE', description: 'admin, editor, member, or a custom role (member).' },
  tier: {
    type: 'string',
    value: 'TIER',
    description: 'user, system or operator (that of the role; user for a custom one).',
  },
} as const

/** `whose` says what the tenant is, such as 'Tenant of the key'. */
export const tenantFlag = (whose: string) =>
  ({ type: 'string', value: 'TENANT', description: `${whose} (local).` }) as const

/** What an action accepts, beside what it does, so that neither is changed without the other. */
type Action = ActionSpec & Readonly<{ run(context: CommandContext): Promise<number> }>

/** A command whose first word is an action; the parser has checked that it is one of these. */
export const actionCommand = ({
  actions,
  ...spec
}: CommandSpec & Readonly<{ actions: Readonly<Record<string, Action>> }>): Command => ({
  spec: { ...spec, actions },
  run: (context) => actions[context.parsed.positionals[0]!]!.run(context),
})

/** The first argument of an action, or the one at `index`; the parser has checked that it is there. */
export const argumentOf = ({ parsed }: CommandContext, index = 0): string => parsed.positionals[index + 1]!

/**
 * Calls a tool with the given fields; omitted fields are left to the tool. An error names what the user typed: `written` has the
 * flags and arguments whose field has another name.
 */
export async function ask(
  context: CommandContext,
  tool: string,
  args: Answer = {},
  written: Readonly<Record<string, string>> = {},
): Promise<Answer> {
  const present = Object.fromEntries(Object.entries(args).filter(([, value]) => value !== undefined))
  try {
    const { answer, warnings } = await withClient(context, (client) => client.callTool(tool, present))
    for (const warning of warnings) context.terminal.error(`${warning}\n`)
    return answer
  } catch (error) {
    throw error instanceof AppError ? inWordsOfCommand(context, error, written) : error
  }
}

/** Errors of tools begin with their field: `expires_in: …`, or `Invalid arguments for 'api_key_create': 'tier' must …`. */
const FIELD_FIRST = /^(?:Invalid arguments for '[^']+': '(?<checked>\w+)(?:\.\d+)?'|(?<named>\w+):) /

function inWordsOfCommand(
  { spec, parsed }: CommandContext,
  error: AppError,
  written: Readonly<Record<string, string>>,
): AppError {
  const found = FIELD_FIRST.exec(error.message)
  const field = found?.groups?.['checked'] ?? found?.groups?.['named']
  if (found === null || field === undefined) return error
  const action = parsed.positionals[0]!
  const isArgument = spec.actions?.[action]?.arguments?.split(/\W+/).includes(field.toUpperCase()) === true
  const isFlag = Object.hasOwn(flagsOf(spec, action), field)
  const typed = written[field] ?? (isArgument ? field.toUpperCase() : isFlag ? `--${field}` : undefined)
  if (typed === undefined) return error
  return new AppError(error.code, `${typed}: ${error.message.slice(found[0].length)}`, error.details, { cause: error })
}

/** The organisation that is asked about; left out, that of the caller. */
export const tenantOf = ({ parsed }: CommandContext) => ({ tenant: parsed.text('tenant') })

export const listed = (text: string | undefined): string[] | undefined =>
  text
    ?.split(',')
    .map((entry) => entry.trim())
    .filter((entry) => entry !== '')

/** The rows of an answer as a table, or as JSON with --json. */
export function printRows(context: CommandContext, answer: Answer, list: string, columns: readonly string[]): number {
  if (context.json) {
    printJson(context, answer)
    return 0
  }
  const rows = (answer[list] as Answer[]).map((row) => columns.map((column) => cellOf(row[column])))
  if (isNothing(context, rows)) {
    context.terminal.out(`No ${list}.\n`)
    return 0
  }
  const table = [columns.map((column) => column.toUpperCase()), ...rows]
  context.terminal.out(fittedTable(table, { width: context.terminal.width, names: columns }))
  if (answer['truncated'] === true) context.terminal.error(restOf(context, answer, list, rows.length))
  return 0
}

const pagedBy: Readonly<Record<string, string>> = {
  ...{ users: 'user_list', teams: 'user_team_list', clients: 'oauth_client_list', keys: 'api_key_list' },
  ...{ invitations: 'invitation_list', attempts: 'sign_in_list', secrets: 'secret_list' },
}

/** A command shows the first page alone. */
function restOf(
  context: CommandContext,
  { total, next_cursor: cursor }: Answer,
  list: string,
  displayed: number,
): string {
  const { tenant } = tenantOf(context)
  const args = [`cursor=${cursor}`, ...(tenant === undefined ? [] : [`tenant=${tenant}`])]
  return `These are the first ${displayed} of ${total}. For the next: castellan call ${pagedBy[list]} ${args.join(' ')}\n`
}

/** A person is told that there is nothing; a program gets the headings alone. */
export const isNothing = ({ terminal }: CommandContext, rows: readonly unknown[]): boolean =>
  rows.length === 0 && terminal.width !== undefined

/** Times are to the second. */
export function cellOf(value: unknown): string {
  if (value === null || value === undefined || value === '') return '-'
  if (!Array.isArray(value)) return String(value).replace(TIME, '$1Z')
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

/** A link is printed alone, so that a script can read it; the advice goes to standard error. */
export function printLink(context: CommandContext, answer: Answer, hint: string): number {
  context.terminal.ifLost('The link was made, and cannot be shown again. Give the command again to get another.')
  if (context.json) printJson(context, answer)
  else {
    context.terminal.out(`${answer['link']}\n`)
    context.terminal.error(`${hint}\n`)
  }
  return 0
}
