import { z } from 'zod'
import { limits } from '../../contract/limits.ts'
import { fields } from '../params.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { link, revokedKeys, roleOfPerson, tenantOfPeople, tierOfPerson, user, userView } from './people-fields.ts'

export default defineTool({
  name: 'user_update',
  toolset: 'people',
  title: 'Change a user',
  description:
    'Change the name, role or tier of a user, or make a new link where they choose a password. If the user loses a right, their open sessions end, API keys of theirs that could do more are revoked, and their runs continue with the remaining rights. The last administrator who can sign in cannot give up that role themselves.',
  permission: 'member:update',
  tier: 'user',
  effect: 'update',
  idempotent: true,
  rate: 'default',
  skipJudge: false,
  needsChange: true,
  trust: { governs: true },
  input: z.strictObject({
    user,
    name: z.string().min(1).max(limits.personNameCharsMax).optional().describe('New name.'),
    role: roleOfPerson.optional(),
    tier: tierOfPerson,
    new_link: z.boolean().optional().describe('Answer with a new link where the user chooses a password.'),
    tenant: tenantOfPeople,
  }),
  output: userView.extend({
    revoked_keys: revokedKeys,
    link: link.optional(),
    link_expires_at: fields.time.optional(),
  }),
  run: (input, { people, call }) => people.updateUser(call, input),
})
