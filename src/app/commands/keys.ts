import { clientFlags, requirePositional } from '../../cli/command.ts'
import { textTable } from '../../cli/terminal.ts'
import { AppError } from '../../contract/app-error.ts'
import { withClient } from './client.ts'
import { type Command, type CommandContext, printJson } from './context.ts'

const spec = {
  name: 'keys',
  positionals: 'create NAME | list | revoke KEY',
  positionalsMax: 2,
  summary: 'Manage API keys.',
  description:
    'create: create a key and print its secret once. list: show the keys and when each was last used. revoke: revoke a key by id or name.',
  flags: {
    role: { type: 'string', value: 'ROLE', description: 'admin, editor, member, or a role of your own (member).' },
    tier: { type: 'string', value: 'TIER', description: 'user, system or operator (user).' },
    scopes: { type: 'string', value: 'LIST', description: 'Only these permissions: task:read,task:*.' },
    expires: {
      type: 'string',
      value: 'SPAN',
      description: 'Expire after this time: 90d, 12h, or a number of seconds.',
    },
    tenant: { type: 'string', value: 'TENANT', description: 'Tenant of the key (local).' },
    ...clientFlags,
  },
  examples: ['castellan keys create ci --role editor --expires 90d', 'castellan keys list', 'castellan keys revoke ci'],
} as const

export const command: Command = { spec, run }

async function run(context: CommandContext): Promise<number> {
  const action = requirePositional(context.parsed, 0, 'create|list|revoke', spec)
  switch (action) {
    case 'create':
      return await create(context)
    case 'list':
      return await list(context)
    case 'revoke':
      return await revoke(context)
    default:
      throw new AppError('ERR_INVALID_INPUT', `Unknown action '${action}'. Use create, list or revoke.`, {
        field: 'action',
      })
  }
}

const ask = async (context: CommandContext, tool: string, args: Record<string, unknown>) => {
  const input = Object.fromEntries(Object.entries(args).filter(([, value]) => value !== undefined))
  return (await withClient(context, (client) => client.callTool(tool, input))).answer
}

async function create(context: CommandContext): Promise<number> {
  const { parsed, terminal } = context
  const answer = await ask(context, 'api_key_create', {
    name: requirePositional(parsed, 1, 'NAME', spec),
    role: parsed.text('role'),
    tier: parsed.text('tier'),
    scopes: parsed.text('scopes')?.split(','),
    expires_in: parsed.text('expires'),
    tenant: parsed.text('tenant'),
  })
  if (context.json) printJson(context, answer)
  else {
    terminal.out(`${answer['secret']}\n`)
    terminal.error('Save it now: it is not shown again. Send it as "Authorization: Bearer …".\n')
  }
  return 0
}

async function list(context: CommandContext): Promise<number> {
  const answer = await ask(context, 'api_key_list', { tenant: context.parsed.text('tenant') })
  if (context.json) {
    printJson(context, answer)
    return 0
  }
  const keys = answer['keys'] as Record<string, string | null>[]
  const columns = ['id', 'name', 'role', 'tier', 'status', 'last_used_at', 'expires_at'] as const
  const rows = keys.map((key) => columns.map((column) => key[column] ?? '-'))
  context.terminal.out(textTable([columns.map((column) => column.toUpperCase()), ...rows]))
  return 0
}

async function revoke(context: CommandContext): Promise<number> {
  const key = requirePositional(context.parsed, 1, 'KEY', spec)
  const answer = await ask(context, 'api_key_revoke', { key, tenant: context.parsed.text('tenant') })
  if (context.json) printJson(context, answer)
  else context.terminal.out(`Revoked ${answer['name']} (${answer['id']}).\n`)
  return 0
}
