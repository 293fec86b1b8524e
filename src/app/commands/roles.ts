import { clientFlags } from '../../cli/command.ts'
import { AppError } from '../../contract/app-error.ts'
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
import { requireAgreement, yesFlag } from './confirm.ts'
import type { CommandContext } from './context.ts'

export const command = actionCommand({
  name: 'roles',
  summary: 'Manage custom roles.',
  description:
    'Manage custom roles: named sets of permissions for people, OAuth clients and API keys (--role of users, invite, clients and keys). The roles admin, editor and member are always there.',
  flags: { tenant: tenantFlag('Organisation of the role'), ...clientFlags },
  actions: {
    create: {
      arguments: 'NAME',
      summary: 'Create a role with permissions that you have yourself.',
      flags: {
        permissions: {
          type: 'string',
          value: 'LIST',
          description: 'What the role grants: agent:read,task:*.',
        },
        description: { type: 'string', value: 'TEXT', description: 'Whom the role is for.' },
      },
      run: create,
    },
    list: { summary: 'Show the roles and what they grant.', run: list },
    delete: {
      arguments: 'NAME',
      summary: 'Delete a custom role that no person and no client has. Asks first at a terminal.',
      flags: { yes: yesFlag },
      run: remove,
    },
  },
  examples: ["castellan roles create reviewer --permissions 'task:*,agent:read'", 'castellan roles list'],
})

async function create(context: CommandContext): Promise<number> {
  const { parsed } = context
  const permissions = listed(parsed.text('permissions')) ?? []
  if (permissions.length === 0) {
    const message =
      '--permissions is missing. Name what the role grants, such as task:read or task:*. To see all permissions: castellan roles list --json'
    throw new AppError('ERR_INVALID_INPUT', message, { field: 'permissions' })
  }
  const fields = {
    name: argumentOf(context),
    description: parsed.text('description'),
    permissions,
    ...tenantOf(context),
  }
  const answer = await ask(context, 'role_create', fields)
  return printOutcome(context, answer, `Created ${answer['name']}: ${(answer['permissions'] as string[]).join(', ')}.`)
}

/** More are counted: the reference and --json have them all. */
const LISTED_MAX = 8

async function list(context: CommandContext): Promise<number> {
  const answer = await ask(context, 'role_list', tenantOf(context))
  if (context.json) return printRows(context, answer, 'roles', [])
  const roles = (answer['roles'] as Record<string, unknown>[]).map((role) => {
    const permissions = role['permissions'] as readonly string[]
    return { ...role, permissions: permissions.length > LISTED_MAX ? `${permissions.length} permissions` : permissions }
  })
  return printRows(context, { roles }, 'roles', ['name', 'permissions', 'description', 'created_by'])
}

async function remove(context: CommandContext): Promise<number> {
  const name = argumentOf(context)
  const question = `Delete the role ${name}? API keys with it lose all rights, and their sessions and runs end.`
  await requireAgreement(context, question)
  const answer = await ask(context, 'role_delete', { name, ...tenantOf(context) })
  return printOutcome(context, answer, `Deleted ${answer['name']}.`)
}
