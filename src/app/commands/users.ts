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
import { isConfirming, requireAgreement, yesFlag } from './confirm.ts'
import type { CommandContext } from './context.ts'

const userFlags = {
  admin: { type: 'boolean', description: 'An administrator; the same as --role admin.' },
  ...rightsFlags,
  name: { type: 'string', value: 'NAME', description: 'Display name.' },
} as const

export const command = actionCommand({
  name: 'users',
  summary: 'Manage the people who can sign in.',
  description:
    'Manage the people who can sign in. USER is an id or an e-mail address. To change the teams of a user: castellan teams add, castellan teams remove.',
  flags: { tenant: tenantFlag('Organisation of the user'), ...clientFlags },
  actions: {
    create: {
      arguments: 'EMAIL',
      summary: 'Create a user, and print a one-time link where they choose a password.',
      flags: {
        ...userFlags,
        teams: { type: 'string', value: 'LIST', description: 'Teams of people to join, by id or name.' },
      },
      run: create,
    },
    list: { summary: 'Show the users.', run: list },
    update: {
      arguments: 'USER',
      summary: 'Change name, role or tier, or make a new link.',
      flags: {
        ...userFlags,
        'new-link': { type: 'boolean', description: 'Print a new link where the user chooses a password.' },
        yes: yesFlag,
      },
      changes: ['admin', 'role', 'tier', 'name', 'new-link'],
      run: update,
    },
    delete: {
      arguments: 'USER',
      summary: 'Remove a user, with their sessions and keys. Asks first at a terminal.',
      flags: { yes: yesFlag },
      run: remove,
    },
    sessions: { arguments: 'USER', summary: 'Show where a user is signed in.', run: sessions },
    revoke: { arguments: 'USER SESSION', summary: 'End one session of a user.', run: revoke },
    attempts: { summary: 'Show who tried to sign in.', run: attempts },
  },
  examples: [
    'castellan users create ada@example.com --admin',
    'castellan users list',
    'castellan users update ada@example.com --role editor',
  ],
})

function roleOf({ parsed }: CommandContext): string | undefined {
  const role = parsed.text('role')
  if (!parsed.isSet('admin')) return role
  if (role === undefined || role === 'admin') return 'admin'
  const message = `--admin and --role cannot be combined: --admin is --role admin. Leave one of them out.`
  throw new AppError('ERR_INVALID_INPUT', message, { field: 'role' })
}

async function create(context: CommandContext): Promise<number> {
  const { parsed } = context
  const fields = {
    email: argumentOf(context),
    role: roleOf(context),
    tier: parsed.text('tier'),
    name: parsed.text('name'),
    teams: listed(parsed.text('teams')),
    ...tenantOf(context),
  }
  const answer = await ask(context, 'user_create', fields, { team: '--teams' })
  return printLink(context, answer, `${answer['email']} opens the link to choose a password. It works once.`)
}

async function list(context: CommandContext): Promise<number> {
  const answer = await ask(context, 'user_list', tenantOf(context))
  const users = answer['users'] as Record<string, unknown>[]
  const tenant = context.parsed.text('tenant')
  if (users.length === 0 && tenant !== undefined) {
    context.terminal.error(
      `There is no user in an organisation '${tenant}'. Check its name, or create the first user.\n`,
    )
  }
  const named = { ...answer, users: users.map((user) => ({ ...user, teams: user['team_names'] })) }
  return printRows(context, context.json ? answer : named, 'users', ['email', 'name', 'role', 'tier', 'teams', 'id'])
}

/** Said before the only administrator who can sign in is removed or gets another role; empty for another user. */
async function lastAdminNotice(context: CommandContext, named: string): Promise<string> {
  if (!isConfirming(context)) return ''
  const { users } = await ask(context, 'user_list', { role: 'admin', ...tenantOf(context) }).catch(() => ({
    users: [],
  }))
  const admins = (users as Record<string, unknown>[]).filter((user) => user['can_sign_in'])
  const isMeant = ({ id, email }: Record<string, unknown>): boolean => id === named || email === named.toLowerCase()
  return admins.length === 1 && isMeant(admins[0]!)
    ? ' Nobody else can sign in as an administrator of the organisation.'
    : ''
}

async function update(context: CommandContext): Promise<number> {
  const { parsed } = context
  const [user, role] = [argumentOf(context), roleOf(context)]
  const notice = role === undefined || role === 'admin' ? '' : await lastAdminNotice(context, user)
  if (notice !== '') await requireAgreement(context, `Make ${user} ${role}?${notice}`)
  const answer = await ask(context, 'user_update', {
    user,
    role,
    tier: parsed.text('tier'),
    name: parsed.text('name'),
    new_link: parsed.isSet('new-link') || undefined,
    ...tenantOf(context),
  })
  if (answer['link'] !== undefined)
    return printLink(context, answer, `${answer['email']} opens the link to choose a password. It works once.`)
  return printOutcome(context, answer, `${answer['email']} is ${answer['role']}, tier ${answer['tier']}.`)
}

async function remove(context: CommandContext): Promise<number> {
  const user = argumentOf(context)
  const notice = await lastAdminNotice(context, user)
  await requireAgreement(
    context,
    `Remove ${user}? Their sessions, keys and runs end, and their workspaces stop.${notice}`,
  )
  const answer = await ask(context, 'user_delete', { user, ...tenantOf(context) })
  return printOutcome(context, answer, `Removed ${answer['email']}.`)
}

async function sessions(context: CommandContext): Promise<number> {
  const answer = await ask(context, 'user_session_list', { user: argumentOf(context), ...tenantOf(context) })
  return printRows(context, answer, 'sessions', ['id', 'kind', 'name', 'address', 'created_at', 'expires_at'])
}

async function revoke(context: CommandContext): Promise<number> {
  const session = argumentOf(context, 1)
  const user = argumentOf(context)
  const answer = await ask(context, 'user_session_revoke', { user, session, ...tenantOf(context) })
  return printOutcome(context, answer, `Ended ${answer['session']} of ${answer['user']}.`)
}

async function attempts(context: CommandContext): Promise<number> {
  const answer = await ask(context, 'sign_in_list', tenantOf(context))
  return printRows(context, answer, 'attempts', ['at', 'email', 'address', 'outcome'])
}
