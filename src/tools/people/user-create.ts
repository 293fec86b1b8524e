import { z } from 'zod'
import { limits } from '../../contract/limits.ts'
import { fields } from '../params.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { email, link, roleOfPerson, teamsOfPerson, tenantOfPeople, tierOfPerson, userView } from './people-fields.ts'

export default defineTool({
  name: 'user_create',
  toolset: 'people',
  title: 'Create a user',
  description:
    'Create a person who can sign in, in your organisation. The answer holds a link where the person chooses a password; hand it over, it works once. Use invitation_create instead if the person should only become a user by accepting. Nobody can give more rights than they have.',
  permission: 'member:create',
  tier: 'user',
  effect: 'create',
  idempotent: false,
  rate: 'create',
  skipJudge: false,
  trust: { governs: true },
  input: z.strictObject({
    email,
    name: z.string().min(1).max(limits.personNameCharsMax).optional().describe('Name for people to read.'),
    role: roleOfPerson.default('member'),
    tier: tierOfPerson,
    teams: teamsOfPerson,
    tenant: tenantOfPeople,
  }),
  output: userView.extend({ link, link_expires_at: fields.time }),
  run: (input, { people, call }) => people.createUser(call, input),
})
