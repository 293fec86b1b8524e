import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { tenantOfPeople, user } from './people-fields.ts'

export default defineTool({
  name: 'user_session_revoke',
  toolset: 'people',
  title: 'End a session of a user',
  description:
    'End one session of a user, in a browser or of a client, at once, or remove a passkey of the user. user_session_list shows them.',
  permission: 'member:update',
  tier: 'user',
  effect: 'update',
  idempotent: false,
  rate: 'default',
  skipJudge: false,
  input: z.strictObject({
    user,
    session: z.string().min(1).max(128).describe('Id of the session or the passkey.'),
    tenant: tenantOfPeople,
  }),
  output: z.strictObject({ session: z.string(), user: z.string(), revoked: z.boolean() }),
  run: (input, { people, call }) => people.revokeSession(call, input),
})
