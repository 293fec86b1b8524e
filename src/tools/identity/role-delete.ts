import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { tenantOfRoles } from './role-view.ts'

export default defineTool({
  name: 'role_delete',
  toolset: 'identity',
  title: 'Delete a role',
  description:
    'Remove a custom role of your organisation. It is refused while a user, an open invitation, an OAuth client or an identity provider has the role: the answer counts them. API keys with the role lose all rights at once, and their sessions and runs end. The roles admin, editor and member stay.',
  permission: 'ac:delete',
  tier: 'user',
  effect: 'delete',
  idempotent: true,
  rate: 'default',
  skipJudge: false,
  input: z.strictObject({ name: z.string().min(1).max(63).describe('Name of the role.'), tenant: tenantOfRoles }),
  output: z.strictObject({ name: z.string(), deleted: z.boolean() }),
  run: (input, { roles, call }) => roles.deleteRole(call, input),
})
