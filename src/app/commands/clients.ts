import { clientFlags } from '../../cli/command.ts'
import { AppError } from '../../contract/app-error.ts'
import {
  actionCommand,
  argumentOf,
  ask,
  listed,
  printOutcome,
  printRows,
  rightsFlags,
  tenantFlag,
  tenantOf,
} from './action-command.ts'
import type { CommandContext } from './context.ts'

export const command = actionCommand({
  name: 'clients',
  summary: 'Manage OAuth clients of programs that act for themselves.',
  description:
    'Manage OAuth clients of programs that act for themselves. A client gets tokens with the client credentials grant, only for the gateways in its list. CLIENT is an id or a name.',
  flags: { tenant: tenantFlag('Organisation of the client'), ...clientFlags },
  actions: {
    create: {
      arguments: 'NAME',
      summary: 'Create a client, and print its id and its secret once.',
      flags: {
        gateways: { type: 'string', value: 'LIST', description: 'Gateways that the client may use, by slug or id.' },
        ...rightsFlags,
      },
      run: create,
    },
    list: { summary: 'Show the clients.', run: list },
    delete: { arguments: 'CLIENT', summary: 'Remove a client.', run: remove },
  },
  examples: ['castellan clients create nightly --gateways reports', 'castellan clients list'],
})

async function create(context: CommandContext): Promise<number> {
  const { parsed } = context
  const gateways = listed(parsed.text('gateways')) ?? []
  if (gateways.length === 0) {
    const message =
      '--gateways is missing. Name the gateways that the client may use. To list them: castellan call list_mcp_gateways'
    throw new AppError('ERR_INVALID_INPUT', message, { field: 'gateways' })
  }
  const answer = await ask(context, 'oauth_client_create', {
    name: argumentOf(context),
    gateways,
    role: parsed.text('role'),
    tier: parsed.text('tier'),
    ...tenantOf(context),
  })
  context.terminal.ifLost(
    `The client was made, and its secret cannot be shown again. Remove it, then create another: castellan clients delete ${answer['id']}`,
  )
  // Programs know the id by the name that OAuth gives it.
  const named = { client_id: answer['id'], ...answer }
  return printOutcome(context, named, `client_id: ${answer['id']}\nclient_secret: ${answer['client_secret']}`)
}

async function list(context: CommandContext): Promise<number> {
  const answer = await ask(context, 'oauth_client_list', tenantOf(context))
  return printRows(context, answer, 'clients', ['id', 'name', 'role', 'tier', 'gateways', 'created_at'])
}

async function remove(context: CommandContext): Promise<number> {
  const answer = await ask(context, 'oauth_client_delete', { client: argumentOf(context), ...tenantOf(context) })
  return printOutcome(context, answer, `Removed ${answer['name']}.`)
}
