import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { roleView, tenantOfRoles } from './role-view.ts'

export default defineTool({
  name: 'role_create',
  toolset: 'identity',
  title: 'Create a role',
  description:
    'Create a role in your organisation with exactly the permissions that you list. You must have all of them yourself. Give it to people with user_create, user_update or invitation_create, to programs with oauth_client_create or api_key_create. The roles admin, editor and member are always there; role_list shows what they grant.',
  permission: 'ac:create',
  tier: 'user',
  effect: 'create',
  idempotent: false,
  rate: 'create',
  skipJudge: false,
  trust: { governs: true },
  input: z.strictObject({
    name: z.string().min(1).max(63).describe('Lower-case letters, digits, "_" or "-", beginning with a letter.'),
    description: z.string().max(1_024).optional().describe('Whom it is for.'),
    permissions: z
      .array(z.string().min(1).max(64))
      .min(1)
      .max(500)
      .describe('Such as "agent:read", or "agent:*" for all on one resource.'),
    tenant: tenantOfRoles,
  }),
  output: roleView,
  run: (input, { roles, call }) => roles.createRole(call, input),
})
