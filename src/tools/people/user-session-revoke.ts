import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { tenantOfPeople, userOrSelf } from './people-fields.ts'

export default defineTool({
  name: 'user_session_revoke',
  toolset: 'people',
  title: 'End a session of a user',
  description:
    'End one session of yours, in a browser or of a client, at once, or remove a passkey. With the permission member:update also one of another user. user_session_list shows them.',
  permission: null,
  tier: 'user',
  effect: 'update',
  idempotent: false,
  rate: 'default',
  skipJudge: false,
  input: z.strictObject({
    user: userOrSelf,
    session: z.string().min(1).max(128).describe('Id of the session or the passkey.'),
    tenant: tenantOfPeople,
  }),
  output: z.strictObject({ session: z.string(), user: z.string(), revoked: z.boolean() }),
  run: (input, { people, call }) => people.revokeSession(call, input),
})
