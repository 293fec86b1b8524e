import { clientFlags } from '../../cli/command.ts'
import { AppError } from '../../contract/app-error.ts'
import {
  actionCommand,
  argumentOf,
  ask,
  listed,
  printLink,
  printOutcome,
  printRows,
  rightsFlags,
  tenantFlag,
  tenantOf,
} from './action-command.ts'
import type { CommandContext } from './context.ts'

export const command = actionCommand({
  name: 'invite',
  summary: 'Invite people with a one-time link.',
  flags: { tenant: tenantFlag('Organisation to join'), ...clientFlags },
  actions: {
    create: {
      arguments: 'EMAIL',
      summary: 'Invite a person, and print the link.',
      flags: {
        ...rightsFlags,
        teams: { type: 'string', value: 'LIST', description: 'Teams of people to join, by id or name.' },
        hours: { type: 'string', value: 'HOURS', description: 'How long the link works (168).' },
      },
      run: create,
    },
    list: { summary: 'Show the invitations and their state.', run: list },
    cancel: { arguments: 'INVITATION', summary: 'Cancel an invitation, by id or e-mail address.', run: cancel },
  },
  examples: ['castellan invite create bob@example.com --role editor --teams design', 'castellan invite list'],
})

async function create(context: CommandContext): Promise<number> {
  const { parsed } = context
  const fields = {
    email: argumentOf(context),
    role: parsed.text('role'),
    tier: parsed.text('tier'),
    teams: listed(parsed.text('teams')),
    expires_in_hours: wholeHours(parsed.text('hours')),
    ...tenantOf(context),
  }
  const answer = await ask(context, 'invitation_create', fields, { team: '--teams', expires_in_hours: '--hours' })
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

/** By id, or by the e-mail address of an open invitation. */
async function invitationOf(context: CommandContext, written: string): Promise<string> {
  if (!written.includes('@')) return written
  const { invitations } = await ask(context, 'invitation_list', {
    email: written,
    status: 'open',
    ...tenantOf(context),
  })
  const waiting = (invitations as readonly Readonly<Record<string, string>>[]).find(
    ({ email }) => email === written.toLowerCase(),
  )
  if (waiting !== undefined) return waiting['id']!
  const message = 'INVITATION: no invitation waits for this address. To list them: castellan invite list'
  throw new AppError('ERR_NOT_FOUND', message, { field: 'INVITATION' })
}

async function cancel(context: CommandContext): Promise<number> {
  const invitation = await invitationOf(context, argumentOf(context))
  const answer = await ask(context, 'invitation_cancel', { invitation, ...tenantOf(context) })
  return printOutcome(context, answer, `The invitation of ${answer['email']} is ${answer['status']}.`)
}

function wholeHours(text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  if (/^[1-9]\d{0,5}$/.test(text)) return Number(text)
  throw new AppError('ERR_INVALID_INPUT', '--hours must be a whole number of at least 1.', { field: 'hours' })
}
