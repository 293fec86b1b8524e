import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'

export default defineTool({
  name: 'role_delete',
  toolset: 'identity',
  title: 'Delete a role',
  description:
    'Remove a role that your organisation made. Keys that have it lose all their rights within a second. The roles admin, editor and member stay.',
  permission: 'ac:delete',
  tier: 'user',
  effect: 'delete',
  idempotent: true,
  rate: 'default',
  skipJudge: false,
  input: z.strictObject({ name: z.string().min(1).max(63).describe('Name of the role.') }),
  output: z.strictObject({ name: z.string(), deleted: z.boolean() }),
  run: (input, { roles, call }) => roles.deleteRole(call, input),
})
