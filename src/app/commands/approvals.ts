import { clientFlags } from '../../cli/command.ts'
import { fittedTable } from '../../cli/fitted-table.ts'
import { actionCommand, argumentOf, ask, cellOf, isNothing, printOutcome } from './action-command.ts'
import { type CommandContext, printJson } from './context.ts'

const note = { type: 'string', value: 'TEXT', description: 'Reason; shown to the requester and recorded.' } as const

export const command = actionCommand({
  name: 'approvals',
  summary: 'List requests that wait for your approval, and answer them.',
  flags: clientFlags,
  actions: {
    list: {
      summary: 'Show the calls and Human states that wait for a person.',
      flags: {
        all: {
          type: 'boolean',
          description: 'Include what was answered, or not answered in time; Human states of the newest runs.',
        },
      },
      run: list,
    },
    show: { arguments: 'ID', summary: 'Print one in full, with its arguments.', run: show },
    approve: {
      arguments: 'ID',
      summary: 'Approve the request.',
      flags: { note },
      run: (context) => answer(context, 'approve'),
    },
    deny: {
      arguments: 'ID',
      summary: 'Deny the request.',
      flags: { note },
      run: (context) => answer(context, 'deny'),
    },
  },
  examples: [
    'castellan approvals list',
    'castellan approvals approve ID',
    'castellan approvals deny ID --note "not today"',
  ],
})

type Approval = Readonly<Record<string, unknown>>

async function list(context: CommandContext): Promise<number> {
  const answered = await ask(context, 'approval_list', { limit: 200, answered: context.parsed.isSet('all') })
  if (context.json) {
    printJson(context, answered)
    return 0
  }
  const rows = (answered['approvals'] as Approval[]).map((one) =>
    [one['id'], one['status'], ...(one['tool'] === null ? humanState(one) : toolCall(one)), one['expires_at']].map(
      cellOf,
    ),
  )
  if (isNothing(context, rows)) {
    context.terminal.out(context.parsed.isSet('all') ? 'No approvals.\n' : 'Nothing waits for an approval.\n')
    return 0
  }
  const table = [['ID', 'STATUS', 'WHAT', 'DETAIL', 'ASKED BY', 'EXPIRES'], ...rows]
  context.terminal.out(fittedTable(table, { width: context.terminal.width, yields: 3 }))
  return 0
}

const DETAIL_CHARACTERS_MAX = 60

const toolCall = ({ tool, arguments: args, requested_by }: Approval): unknown[] => [
  tool,
  shortened(JSON.stringify(args)),
  requested_by,
]

const humanState = ({ workflow_name, state, prompt, note }: Approval): unknown[] => [
  `${workflow_name}/${state}`,
  shortened(`${prompt ?? '-'}${note === null ? '' : ` → ${note}`}`),
  `workflow ${workflow_name}`,
]

const shortened = (text: string): string =>
  text.length > DETAIL_CHARACTERS_MAX ? `${text.slice(0, DETAIL_CHARACTERS_MAX - 1).toWellFormed()}…` : text

/** Untrusted texts are shown as JSON, which escapes terminal control characters. */
async function show(context: CommandContext): Promise<number> {
  printJson(context, (await ask(context, 'approval_get', { id: argumentOf(context) }))['approval'])
  return 0
}

async function answer(context: CommandContext, decision: 'approve' | 'deny'): Promise<number> {
  const reason = context.parsed.text('note')
  const answered = await ask(context, 'approval_answer', { id: argumentOf(context), decision, note: reason })
  printOutcome(context, answered, `${answered['id']} is ${answered['status']}. ${answered['message']}`)
  return answered['status'] === 'withdrawn' ? 1 : 0
}
