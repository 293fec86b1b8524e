import { clientFlags, requirePositional } from '../../cli/command.ts'
import { AppError } from '../../contract/app-error.ts'
import type { Command, CommandContext } from './context.ts'
import { ask, listed, printLink, printOutcome, printRows, runAction } from './people-actions.ts'

const spec = {
  name: 'invite',
  positionals: 'create EMAIL | list | cancel INVITATION',
  positionalsMax: 2,
  summary: 'Invite people with a one-time link.',
  flags: {
    role: { type: 'string', value: 'ROLE', description: 'admin, editor or member (member).' },
    tier: { type: 'string', value: 'TIER', description: 'user, system or operator (that of the role).' },
    teams: { type: 'string', value: 'LIST', description: 'Teams of people to join, by id or name.' },
    hours: { type: 'string', value: 'HOURS', description: 'How long the link works (168).' },
    tenant: { type: 'string', value: 'TENANT', description: 'Organisation to join (local).' },
    ...clientFlags,
  },
  examples: ['castellan invite create bob@example.com --role editor --teams design', 'castellan invite list'],
} as const

export const command: Command = { spec, run: (context) => runAction(context, spec, { create, list, cancel }) }

const tenantOf = ({ parsed }: CommandContext) => ({ tenant: parsed.text('tenant') })

async function create(context: CommandContext): Promise<number> {
  const { parsed } = context
  const answer = await ask(context, 'invitation_create', {
    email: requirePositional(parsed, 1, 'EMAIL', spec),
    role: parsed.text('role'),
    tier: parsed.text('tier'),
    teams: listed(parsed.text('teams')),
    expires_in_hours: wholeHours(parsed.text('hours')),
    ...tenantOf(context),
  })
  return printLink(context, answer, hintOf(answer))
}

const adviceOnMail: Readonly<Record<string, string>> = {
  sent: 'It was mailed to',
  failed: 'The mail server did not accept the mail. Send the link yourself to',
  off: 'Send it to',
}

const hintOf = (answer: Readonly<Record<string, unknown>>): string =>
  `${adviceOnMail[String(answer['mail'])]} ${answer['email']}; it works once, until ${answer['expires_at']}.`

async function list(context: CommandContext): Promise<number> {
  const answer = await ask(context, 'invitation_list', tenantOf(context))
  return printRows(context, answer, 'invitations', ['id', 'email', 'role', 'purpose', 'status', 'expires_at'])
}

async function cancel(context: CommandContext): Promise<number> {
  const invitation = requirePositional(context.parsed, 1, 'INVITATION', spec)
  const answer = await ask(context, 'invitation_cancel', { invitation, ...tenantOf(context) })
  return printOutcome(context, answer, `The invitation of ${answer['email']} is ${answer['status']}.`)
}

function wholeHours(text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  if (/^[1-9]\d{0,5}$/.test(text)) return Number(text)
  throw new AppError('ERR_INVALID_INPUT', '--hours: write a whole number from 1.', { field: 'hours' })
}
