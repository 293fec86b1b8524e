import { clientFlags, requirePositional } from '../../cli/command.ts'
import { textTable } from '../../cli/terminal.ts'
import { AppError } from '../../contract/app-error.ts'
import { withClient } from './client.ts'
import { type Command, type CommandContext, printJson } from './context.ts'

const spec = {
  name: 'secrets',
  positionals: 'list | delete ID | rotate',
  positionalsMax: 2,
  summary: 'List or delete secrets, or rotate the key that encrypts them.',
  description:
    'list: show the secrets without their values. delete: remove a secret to which nothing refers. rotate: encrypt all secrets with a new key.',
  flags: { ...clientFlags },
  examples: ['castellan secrets list', 'castellan secrets delete sec_…', 'castellan secrets rotate'],
} as const

export const command: Command = { spec, run }

async function run(context: CommandContext): Promise<number> {
  const action = requirePositional(context.parsed, 0, 'list|delete|rotate', spec)
  switch (action) {
    case 'list':
      return await list(context)
    case 'delete':
      return await remove(context)
    case 'rotate':
      return await rotate(context)
    default:
      throw new AppError('ERR_INVALID_INPUT', `Unknown action '${action}'. Use list, delete or rotate.`, {
        field: 'action',
      })
  }
}

const ask = async (context: CommandContext, tool: string, args: Record<string, unknown> = {}) =>
  (await withClient(context, (client) => client.callTool(tool, args))).answer

async function list(context: CommandContext): Promise<number> {
  const answer = await ask(context, 'secret_list')
  if (context.json) {
    printJson(context, answer)
    return 0
  }
  const secrets = answer['secrets'] as Record<string, string | boolean>[]
  const columns = ['id', 'purpose', 'owner', 'entered', 'updated_at'] as const
  const rows = secrets.map((secret) => columns.map((column) => String(secret[column])))
  context.terminal.out(textTable([columns.map((column) => column.toUpperCase()), ...rows]))
  return 0
}

async function remove(context: CommandContext): Promise<number> {
  const id = requirePositional(context.parsed, 1, 'ID', spec)
  const answer = await ask(context, 'secret_delete', { id })
  if (context.json) printJson(context, answer)
  else context.terminal.out(`The secret ${answer['id']} is deleted.\n`)
  return 0
}

async function rotate(context: CommandContext): Promise<number> {
  const answer = await ask(context, 'secret_rotate')
  if (context.json) printJson(context, answer)
  else context.terminal.out(`${answer['rotated']} secrets are encrypted with the key ${answer['key']}.\n`)
  return answer['unreadable'] === 0 ? 0 : 1
}
