import { clientFlags, requirePositional } from '../../cli/command.ts'
import { textTable } from '../../cli/terminal.ts'
import { AppError } from '../../contract/app-error.ts'
import { withClient } from './client.ts'
import { type Command, type CommandContext, printJson } from './context.ts'

const spec = {
  name: 'approvals',
  positionals: 'list | show ID | approve ID | deny ID',
  positionalsMax: 2,
  summary: 'See what waits for your approval, and answer it.',
  description:
    'list: show calls and Human states that wait for a person. show: print one whole, with its arguments. approve, deny: answer it.',
  flags: {
    note: { type: 'string', value: 'TEXT', description: 'Why; told to who asked, and recorded.' },
    all: { type: 'boolean', description: 'list: also those that were answered.' },
    ...clientFlags,
  },
  examples: [
    'castellan approvals list',
    'castellan approvals approve ID',
    'castellan approvals deny ID --note "not today"',
  ],
} as const

export const command: Command = { spec, run }

type Approval = Readonly<Record<string, unknown>>

async function run(context: CommandContext): Promise<number> {
  const action = requirePositional(context.parsed, 0, 'list|show|approve|deny', spec)
  switch (action) {
    case 'list':
      return await list(context)
    case 'show':
      return await show(context)
    case 'approve':
    case 'deny':
      return await answer(context, action)
    default:
      throw new AppError('ERR_INVALID_INPUT', `Unknown action '${action}'. Use list, show, approve or deny.`, {
        field: 'action',
      })
  }
}

const ask = async (context: CommandContext, tool: string, args: Record<string, unknown>) =>
  (await withClient(context, (client) => client.callTool(tool, args))).answer

async function list(context: CommandContext): Promise<number> {
  const answered = await ask(context, 'approval_list', { limit: 200, answered: context.parsed.isSet('all') })
  if (context.json) {
    printJson(context, answered)
    return 0
  }
  const rows = (answered['approvals'] as Approval[]).map((one) =>
    [
      one['id'],
      one['status'],
      one['tool'] ?? one['workflow_name'],
      one['requested_by'] ?? one['state'],
      one['expires_at'],
    ].map((cell) => String(cell ?? '-')),
  )
  context.terminal.out(textTable([['ID', 'STATUS', 'WHAT', 'ASKED BY', 'EXPIRES'], ...rows]))
  return 0
}

/** Texts of others are shown as JSON, in which nothing that a terminal would obey stands as it is. */
async function show(context: CommandContext): Promise<number> {
  const id = requirePositional(context.parsed, 1, 'ID', spec)
  printJson(context, (await ask(context, 'approval_get', { id }))['approval'] as Approval)
  return 0
}

async function answer(context: CommandContext, decision: 'approve' | 'deny'): Promise<number> {
  const id = requirePositional(context.parsed, 1, 'ID', spec)
  const note = context.parsed.text('note')
  const answered = await ask(context, 'approval_answer', { id, decision, ...(note !== undefined && { note }) })
  if (context.json) printJson(context, answered)
  else context.terminal.out(`${answered['id']} is ${answered['status']}. ${answered['message']}\n`)
  return answered['status'] === 'withdrawn' ? 1 : 0
}
