import { z } from 'zod'
import { tiers } from '../../contract/principal.ts'
import { fields } from '../params.ts'

export const keyView = z.strictObject({
  id: z.string(),
  prefix: z.string().describe('Public part of the key, by which it is recognised.'),
  name: z.string().describe('What records carry as the actor.'),
  tenant: z.string(),
  role: z.string().describe('admin, editor, member, or a role of the tenant.'),
  tier: z.enum(tiers),
  scopes: z.array(z.string()).nullable().describe('Permissions; null: all that the role has.'),
  status: z
    .enum(['live', 'expired', 'revoked', 'role_deleted'])
    .describe('role_deleted: its role was deleted, so it has no rights.'),
  created_at: fields.time,
  created_by: z.string(),
  expires_at: fields.time.nullable(),
  last_used_at: fields.time.nullable().describe('ISO-8601, UTC; may lag by a minute.'),
  revoked_at: fields.time.nullable(),
})

export const tenantOfKeys = z
  .string()
  .min(1)
  .max(64)
  .describe("Tenant whose keys are meant; your own when left out. Another's is for operators of the tenant local.")
