import { clientFlags, requirePositional } from '../../cli/command.ts'
import type { Command, CommandContext } from './context.ts'
import { ask, listed, printOutcome, printRows, runAction } from './people-actions.ts'

const spec = {
  name: 'teams',
  positionals: 'create NAME | list | update TEAM | delete TEAM',
  positionalsMax: 2,
  summary: 'Manage teams of people.',
  description:
    'Agents, gateways and servers can be shared with a team of people. TEAM is an id or a name. For teams of agents, use castellan call team.',
  flags: {
    name: { type: 'string', value: 'NAME', description: 'New name of the team (update).' },
    description: { type: 'string', value: 'TEXT', description: 'What the team is for.' },
    add: { type: 'string', value: 'LIST', description: 'Users who join, by id or e-mail address.' },
    remove: { type: 'string', value: 'LIST', description: 'Users who leave, by id or e-mail address.' },
    tenant: { type: 'string', value: 'TENANT', description: 'Organisation of the team (local).' },
    ...clientFlags,
  },
  examples: ['castellan teams create design --add ada@example.com', 'castellan teams list'],
} as const

export const command: Command = {
  spec,
  run: (context) => runAction(context, spec, { create, list, update, delete: remove }),
}

const tenantOf = ({ parsed }: CommandContext) => ({ tenant: parsed.text('tenant') })
const teamOf = ({ parsed }: CommandContext) => requirePositional(parsed, 1, 'TEAM', spec)

async function create(context: CommandContext): Promise<number> {
  const { parsed } = context
  const answer = await ask(context, 'user_team_create', {
    name: requirePositional(parsed, 1, 'NAME', spec),
    description: parsed.text('description'),
    members: listed(parsed.text('add')),
    ...tenantOf(context),
  })
  return printOutcome(context, answer, `Created ${answer['name']} (${answer['id']}).`)
}

async function list(context: CommandContext): Promise<number> {
  const answer = await ask(context, 'user_team_list', tenantOf(context))
  return printRows(context, answer, 'teams', ['name', 'members', 'description', 'id'])
}

async function update(context: CommandContext): Promise<number> {
  const { parsed } = context
  const answer = await ask(context, 'user_team_update', {
    team: teamOf(context),
    name: parsed.text('name'),
    description: parsed.text('description'),
    add: listed(parsed.text('add')),
    remove: listed(parsed.text('remove')),
    ...tenantOf(context),
  })
  return printOutcome(context, answer, `Changed ${answer['name']} (${answer['id']}).`)
}

async function remove(context: CommandContext): Promise<number> {
  const answer = await ask(context, 'user_team_delete', { team: teamOf(context), ...tenantOf(context) })
  return printOutcome(context, answer, `Removed ${answer['name']}.`)
}
