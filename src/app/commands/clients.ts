import { clientFlags, requirePositional } from '../../cli/command.ts'
import type { Command, CommandContext } from './context.ts'
import { ask, listed, printOutcome, printRows, runAction } from './people-actions.ts'

const spec = {
  name: 'clients',
  positionals: 'create NAME | list | delete CLIENT',
  positionalsMax: 2,
  summary: 'Manage OAuth clients of programs that act for themselves.',
  description:
    'create: create a client and print its id and secret once. It gets tokens with the client credentials grant, only for the gateways in its list. CLIENT is an id or a name.',
  flags: {
    gateways: {
      type: 'string',
      value: 'LIST',
      description: 'Gateways that the client may use, by slug or id (create).',
    },
    role: { type: 'string', value: 'ROLE', description: 'admin, editor or member (member).' },
    tier: { type: 'string', value: 'TIER', description: 'user, system or operator (that of the role).' },
    tenant: { type: 'string', value: 'TENANT', description: 'Organisation of the client (local).' },
    ...clientFlags,
  },
  examples: ['castellan clients create nightly --gateways reports', 'castellan clients list'],
} as const

export const command: Command = { spec, run: (context) => runAction(context, spec, { create, list, delete: remove }) }

const tenantOf = ({ parsed }: CommandContext) => ({ tenant: parsed.text('tenant') })

async function create(context: CommandContext): Promise<number> {
  const { parsed } = context
  const answer = await ask(context, 'oauth_client_create', {
    name: requirePositional(parsed, 1, 'NAME', spec),
    gateways: listed(parsed.text('gateways')) ?? [],
    role: parsed.text('role'),
    tier: parsed.text('tier'),
    ...tenantOf(context),
  })
  return printOutcome(context, answer, `client_id: ${answer['id']}\nclient_secret: ${answer['client_secret']}`)
}

async function list(context: CommandContext): Promise<number> {
  const answer = await ask(context, 'oauth_client_list', tenantOf(context))
  return printRows(context, answer, 'clients', ['id', 'name', 'role', 'tier', 'gateways', 'created_at'])
}

async function remove(context: CommandContext): Promise<number> {
  const client = requirePositional(context.parsed, 1, 'CLIENT', spec)
  const answer = await ask(context, 'oauth_client_delete', { client, ...tenantOf(context) })
  return printOutcome(context, answer, `Removed ${answer['name']}.`)
}
