import { z } from 'zod'
import { limits } from '../../contract/limits.ts'
import { sharingScopes } from '../../contract/sharing.ts'
import { fields } from '../params.ts'
import { profileFields } from '../profile-params.ts'

/** A provider key as the tools of this set answer it, and how callers name one. */
export const providerKeyFields = {
  key: z.string().min(1).max(64).describe('Id of the provider key, or its name.'),
  name: z.string().min(1).max(64),
  secret: z
    .string()
    .min(1)
    .max(limits.providerKeyCharsMax)
    .describe(
      'The key itself, or the reference that secret_link_create gave, so that no model sees the key. No answer shows it.',
    ),
  primary: z.boolean().describe('Use it before other keys of the same scope for the provider.'),
  view: z.strictObject({
    id: z.string(),
    name: z.string(),
    provider: z.string(),
    scope: z.enum(sharingScopes).describe('Who uses it: its owner, the members of its teams, or the organisation.'),
    teams: z.array(profileFields.team),
    owner: z.string().describe('The identity that stored it.'),
    primary: z.boolean(),
    status: z.enum(['live', 'ownerless']).describe('ownerless: its owner is gone, so nobody uses it.'),
    created_at: fields.time,
    created_by: z.string(),
    rotated_at: fields.time.nullable(),
  }),
} as const
