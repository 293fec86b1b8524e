import { z } from 'zod'
import { limits } from '../../contract/limits.ts'
import { tiers } from '../../contract/principal.ts'
import { fields } from '../params.ts'

export const tenantOfPeople = z
  .string()
  .min(1)
  .max(64)
  .optional()
  .describe(
    "Organisation (tenant) that is meant; your own when left out. Another's is for operators of the tenant local.",
  )
export const email = z.string().min(3).max(320).describe('E-mail address, by which the person signs in.')
export const user = z.string().min(1).max(320).describe('Id or e-mail address of the user.')
export const userOrSelf = user.optional().describe('Id or e-mail address of the user; yourself when left out.')
export const team = z.string().min(1).max(128).describe('Id or name of the team of people.')
export const teamName = z.string().min(1).max(128)
export const roleOfPerson = z
  .string()
  .min(1)
  .max(63)
  .describe('What the person may do: admin, editor, member, or a custom role of the organisation (role_list).')
const roleView = z.string().describe('admin, editor, member, or a custom role.')
export const tierOfPerson = z
  .enum(tiers)
  .optional()
  .describe(
    'Highest tier of tools that the person may use. When left out: operator for admin, system for editor, user for member and custom roles, and never above your own.',
  )
export const teamsOfPerson = z
  .array(team)
  .max(100)
  .optional()
  .describe('Teams of people that the person belongs to, by id or name.')

export const userView = z.strictObject({
  id: z.string(),
  email: z.string(),
  name: z.string(),
  tenant: z.string(),
  role: roleView,
  tier: z.enum(tiers),
  teams: z.array(z.string()).describe('Ids of the teams of people.'),
  created_at: fields.time,
  created_by: z.string(),
})
export const revokedKeys = z
  .array(z.string())
  .optional()
  .describe('Names of API keys of the user that were revoked with this.')
export const link = z
  .string()
  .describe('Address where the person chooses a password. It works once and is not shown again.')

export const teamView = z.strictObject({
  id: z.string(),
  name: z.string(),
  description: z.string(),
  tenant: z.string(),
  members: z.array(z.strictObject({ id: z.string(), email: z.string() })),
  created_at: fields.time,
  created_by: z.string(),
})

export const gatewaysOfClient = z
  .array(z.string().regex(/^[\w.~-]{1,128}$/))
  .min(1)
  .max(limits.gatewaysPerClientMax)
  .describe('Gateways that the client may use, by slug or id; at least one.')
export const clientView = z.strictObject({
  id: z.string().describe('The client_id.'),
  name: z.string(),
  tenant: z.string(),
  role: roleView,
  tier: z.enum(tiers),
  gateways: z.array(z.string()),
  created_at: fields.time,
  created_by: z.string(),
})

export const invitationStatus = z.enum(['open', 'accepted', 'cancelled', 'expired'])
export const invitationView = z.strictObject({
  id: z.string(),
  email: z.string(),
  tenant: z.string(),
  role: roleView,
  tier: z.enum(tiers),
  teams: z.array(z.string()),
  purpose: z.enum(['join', 'password']).describe('`password`: for a user who is there, to choose a password.'),
  status: invitationStatus,
  created_at: fields.time,
  created_by: z.string(),
  expires_at: fields.time,
})
