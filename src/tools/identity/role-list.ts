import { z } from 'zod'
import { fields, params } from '../params.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { roleView, tenantOfRoles } from './role-view.ts'

export default defineTool({
  name: 'role_list',
  toolset: 'identity',
  title: 'List roles',
  description:
    'List the roles of your organisation with what each grants: admin, editor and member, then its custom roles. Use role_create to add one.',
  permission: 'ac:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  input: z.strictObject({ tenant: tenantOfRoles, name: params.part('their name') }),
  output: z.strictObject({ roles: z.array(roleView), total: fields.listed.total }),
  run: (input, { roles, call }) => roles.listRoles(call, input),
})
