import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { revokedKeys, tenantOfPeople, user, userView } from './people-fields.ts'

export default defineTool({
  name: 'user_delete',
  toolset: 'people',
  title: 'Remove a user',
  description:
    'Remove a user for good. Their sessions, tokens, API keys and calls end at once, their runs fail and their workspaces stop; what they made stays. The last administrator who can sign in cannot remove themselves.',
  permission: 'member:delete',
  tier: 'user',
  effect: 'delete',
  idempotent: false,
  rate: 'default',
  skipJudge: false,
  input: z.strictObject({ user, tenant: tenantOfPeople }),
  output: userView.extend({ revoked_keys: revokedKeys }),
  run: (input, { people, call }) => people.deleteUser(call, input),
})
