import { clientFlags, requirePositional } from '../../cli/command.ts'
import type { Command, CommandContext } from './context.ts'
import { ask, listed, printLink, printOutcome, printRows, runAction } from './people-actions.ts'

const spec = {
  name: 'users',
  positionals: 'create EMAIL | list | update USER | delete USER | sessions USER | revoke USER SESSION | attempts',
  positionalsMax: 3,
  summary: 'Manage the people who can sign in.',
  description:
    'create: create a user and print a one-time link where they choose a password. update: change name, role or tier; --new-link prints a new link. sessions: where a user is signed in. revoke: end one of those. attempts: who tried to sign in. USER is an id or an e-mail address.',
  flags: {
    admin: { type: 'boolean', description: 'Create an administrator; the same as --role admin.' },
    role: { type: 'string', value: 'ROLE', description: 'admin, editor or member (member).' },
    tier: { type: 'string', value: 'TIER', description: 'user, system or operator (that of the role).' },
    name: { type: 'string', value: 'NAME', description: 'Display name.' },
    teams: { type: 'string', value: 'LIST', description: 'Teams of people to join, by id or name.' },
    'new-link': { type: 'boolean', description: 'Print a new link where the user chooses a password.' },
    tenant: { type: 'string', value: 'TENANT', description: 'Organisation of the user (local).' },
    ...clientFlags,
  },
  examples: [
    'castellan users create ada@example.com --admin',
    'castellan users list',
    'castellan users update ada@example.com --role editor',
  ],
} as const

export const command: Command = {
  spec,
  run: (context) => runAction(context, spec, { create, list, update, delete: remove, sessions, revoke, attempts }),
}

const tenantOf = ({ parsed }: CommandContext) => ({ tenant: parsed.text('tenant') })
const roleOf = ({ parsed }: CommandContext) => (parsed.isSet('admin') ? 'admin' : parsed.text('role'))
const userOf = ({ parsed }: CommandContext) => requirePositional(parsed, 1, 'USER', spec)

async function create(context: CommandContext): Promise<number> {
  const { parsed } = context
  const answer = await ask(context, 'user_create', {
    email: requirePositional(parsed, 1, 'EMAIL', spec),
    role: roleOf(context),
    tier: parsed.text('tier'),
    name: parsed.text('name'),
    teams: listed(parsed.text('teams')),
    ...tenantOf(context),
  })
  return printLink(context, answer, `${answer['email']} chooses a password there, once. It needs castellan serve.`)
}

async function list(context: CommandContext): Promise<number> {
  const answer = await ask(context, 'user_list', tenantOf(context))
  return printRows(context, answer, 'users', ['email', 'name', 'role', 'tier', 'teams', 'id'])
}

async function update(context: CommandContext): Promise<number> {
  const { parsed } = context
  const answer = await ask(context, 'user_update', {
    user: userOf(context),
    role: roleOf(context),
    tier: parsed.text('tier'),
    name: parsed.text('name'),
    new_link: parsed.isSet('new-link') || undefined,
    ...tenantOf(context),
  })
  if (answer['link'] !== undefined)
    return printLink(context, answer, `${answer['email']} chooses a password there, once.`)
  return printOutcome(context, answer, `${answer['email']} is ${answer['role']}, tier ${answer['tier']}.`)
}

async function remove(context: CommandContext): Promise<number> {
  const answer = await ask(context, 'user_delete', { user: userOf(context), ...tenantOf(context) })
  return printOutcome(context, answer, `Removed ${answer['email']}.`)
}

async function sessions(context: CommandContext): Promise<number> {
  const answer = await ask(context, 'user_session_list', { user: userOf(context), ...tenantOf(context) })
  return printRows(context, answer, 'sessions', ['id', 'kind', 'name', 'address', 'created_at', 'expires_at'])
}

async function revoke(context: CommandContext): Promise<number> {
  const session = requirePositional(context.parsed, 2, 'SESSION', spec)
  const answer = await ask(context, 'user_session_revoke', { user: userOf(context), session, ...tenantOf(context) })
  return printOutcome(context, answer, `Ended ${answer['session']} of ${answer['user']}.`)
}

async function attempts(context: CommandContext): Promise<number> {
  const answer = await ask(context, 'sign_in_list', tenantOf(context))
  return printRows(context, answer, 'attempts', ['at', 'email', 'address', 'outcome'])
}
