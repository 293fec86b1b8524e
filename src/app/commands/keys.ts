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
import { type CommandContext, printJson } from './context.ts'

export const command = actionCommand({
  name: 'keys',
  summary: 'Manage API keys.',
  flags: { tenant: tenantFlag('Tenant of the key'), ...clientFlags },
  actions: {
    create: {
      arguments: 'NAME',
      summary: 'Create a key, and print its secret once.',
      flags: {
        role: { type: 'string', value: 'ROLE', description: 'admin, editor, member, or a custom role (member).' },
        tier: { type: 'string', value: 'TIER', description: 'user, system or operator (user).' },
        scopes: { type: 'string', value: 'LIST', description: 'Only these permissions: task:read,task:*.' },
        expires: {
          type: 'string',
          value: 'SPAN',
          description: 'Expire after this time: 90d, 12h, or a number of seconds.',
        },
      },
      run: create,
    },
    list: { summary: 'Show the keys, and when each was last used.', run: list },
    revoke: { arguments: 'KEY', summary: 'Revoke a key, by id or name.', run: revoke },
  },
  examples: ['castellan keys create ci --role editor --expires 90d', 'castellan keys list', 'castellan keys revoke ci'],
})

async function create(context: CommandContext): Promise<number> {
  const { parsed, terminal } = context
  const fields = {
    name: argumentOf(context),
    role: parsed.text('role'),
    tier: parsed.text('tier'),
    scopes: listed(parsed.text('scopes')),
    expires_in: parsed.text('expires'),
    ...tenantOf(context),
  }
  const answer = await ask(context, 'api_key_create', fields, { expires_in: '--expires' })
  terminal.ifLost(
    `The key was made, and its secret cannot be shown again. Revoke it, then create another: castellan keys revoke ${answer['id']}`,
  )
  if (context.json) printJson(context, answer)
  else {
    terminal.out(`${answer['secret']}\n`)
    terminal.error('Save it now: it is not shown again. Send it as "Authorization: Bearer …".\n')
  }
  return 0
}

async function list(context: CommandContext): Promise<number> {
  const answer = await ask(context, 'api_key_list', tenantOf(context))
  return printRows(context, answer, 'keys', ['id', 'name', 'role', 'tier', 'status', 'last_used_at', 'expires_at'])
}

async function revoke(context: CommandContext): Promise<number> {
  const answer = await ask(context, 'api_key_revoke', { key: argumentOf(context), ...tenantOf(context) })
  return printOutcome(context, answer, `Revoked ${answer['name']} (${answer['id']}).`)
}
