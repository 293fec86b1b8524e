import { clientFlags } from '../../cli/command.ts'
import {
  actionCommand,
  argumentOf,
  ask,
  listed,
  printOutcome,
  printRows,
  tenantFlag,
  tenantOf,
} from './action-command.ts'
import type { CommandContext } from './context.ts'

const description = { type: 'string', value: 'TEXT', description: 'What the team is for.' } as const
const add = { type: 'string', value: 'LIST', description: 'Users who join, by id or e-mail address.' } as const

export const command = actionCommand({
  name: 'teams',
  summary: 'Manage teams of people.',
  description:
    'Manage teams of people: agents, gateways and servers can be shared with them. TEAM is an id or a name, USER an id or an e-mail address. For teams of agents, use castellan call team.',
  flags: { tenant: tenantFlag('Organisation of the team'), ...clientFlags },
  actions: {
    create: { arguments: 'NAME', summary: 'Create a team.', flags: { description, add }, run: create },
    list: { summary: 'Show the teams and their members.', run: list },
    add: { arguments: 'TEAM USER…', summary: 'Add users to a team.', run: (context) => changeMembers(context, 'add') },
    remove: {
      arguments: 'TEAM USER…',
      summary: 'Remove users from a team.',
      run: (context) => changeMembers(context, 'remove'),
    },
    update: {
      arguments: 'TEAM',
      summary: 'Rename or describe a team, or change its members.',
      flags: {
        name: { type: 'string', value: 'NAME', description: 'New name of the team.' },
        description,
        add,
        remove: { type: 'string', value: 'LIST', description: 'Users who leave, by id or e-mail address.' },
      },
      changes: ['name', 'description', 'add', 'remove'],
      run: update,
    },
    delete: { arguments: 'TEAM', summary: 'Remove a team.', run: remove },
  },
  examples: [
    'castellan teams create design --add ada@example.com',
    'castellan teams add design bob@example.com',
    'castellan teams list',
  ],
})

async function create(context: CommandContext): Promise<number> {
  const { parsed } = context
  const fields = {
    name: argumentOf(context),
    description: parsed.text('description'),
    members: listed(parsed.text('add')),
    ...tenantOf(context),
  }
  const answer = await ask(context, 'user_team_create', fields, { members: '--add' })
  return printOutcome(context, answer, `Created ${answer['name']} (${answer['id']}).`)
}

async function list(context: CommandContext): Promise<number> {
  const answer = await ask(context, 'user_team_list', tenantOf(context))
  return printRows(context, answer, 'teams', ['name', 'members', 'description', 'id'])
}

async function changeMembers(context: CommandContext, change: 'add' | 'remove'): Promise<number> {
  const users = context.parsed.positionals.slice(2)
  return await ofTeam(context, { [change]: users }, { [change]: 'USER', members: 'USER' })
}

async function update(context: CommandContext): Promise<number> {
  const { parsed } = context
  return await ofTeam(context, {
    name: parsed.text('name'),
    description: parsed.text('description'),
    add: listed(parsed.text('add')),
    remove: listed(parsed.text('remove')),
  })
}

async function ofTeam(
  context: CommandContext,
  changes: Record<string, unknown>,
  written: Record<string, string> = {},
): Promise<number> {
  const fields = { team: argumentOf(context), ...changes, ...tenantOf(context) }
  const answer = await ask(context, 'user_team_update', fields, written)
  const members = (answer['members'] as readonly Readonly<{ email: string }>[]).map(({ email }) => email)
  const who = members.length === 0 ? 'no members' : members.join(', ')
  return printOutcome(context, answer, `Changed ${answer['name']} (${answer['id']}): ${who}.`)
}

async function remove(context: CommandContext): Promise<number> {
  const answer = await ask(context, 'user_team_delete', { team: argumentOf(context), ...tenantOf(context) })
  return printOutcome(context, answer, `Removed ${answer['name']}.`)
}
