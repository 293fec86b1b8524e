import { z } from 'zod'
import { sharingScopes } from '../../contract/sharing.ts'
import { fields } from '../params.ts'
import { profileFields } from '../profile-params.ts'

const grants = (of: string) => z.array(z.string()).nullable().describe(`${of} that the key is for; null: all.`)

/** A virtual key as the tools of this set answer it, and how callers name one. */
export const virtualKeyFields = {
  key: z.string().min(1).max(64).describe('Id of the virtual key, or its name.'),
  view: z.strictObject({
    id: z.string(),
    prefix: z.string().describe('Public part of the key, by which it is recognised.'),
    name: z.string(),
    scope: z.enum(sharingScopes).describe('Whose the key is: of its owner, of its teams, or of the organisation.'),
    teams: z.array(profileFields.team),
    owner: z.string().describe('The identity that made it.'),
    proxies: grants('Ids of model proxies'),
    providers: grants('Providers'),
    models: grants('Models'),
    provider_keys: z
      .array(z.string())
      .nullable()
      .describe('Ids of the provider keys that pay; null: those that its holder can use.'),
    status: z.enum(['live', 'expired', 'revoked', 'ownerless']).describe('ownerless: its owner or its teams are gone.'),
    created_at: fields.time,
    created_by: z.string(),
    rotated_at: fields.time.nullable(),
    expires_at: fields.time.nullable(),
    last_used_at: fields.time.nullable().describe('ISO-8601, UTC; may lag by a minute.'),
    revoked_at: fields.time.nullable(),
  }),
  secret: z.string().describe('The whole key, to send where a package puts the key of the provider. Shown once.'),
} as const
