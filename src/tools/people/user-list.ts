import { z } from 'zod'
import { fields, params } from '../params.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { roleOfPerson, tenantOfPeople, userView } from './people-fields.ts'

export default defineTool({
  name: 'user_list',
  toolset: 'people',
  title: 'List users',
  description:
    'List the people of an organisation with their roles and teams, by e-mail address. API keys are not people: api_key_list lists those.',
  permission: 'member:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  input: z.strictObject({
    tenant: tenantOfPeople,
    name: params.part('their e-mail address or name'),
    role: roleOfPerson.optional().describe('Only those with this role.'),
    ...params.page,
  }),
  output: z.strictObject({
    users: z.array(
      userView.extend({
        team_names: z.array(z.string()).describe('Their names, in the same order.'),
        can_sign_in: z
          .boolean()
          .describe('Whether the person has chosen a password or has come with an identity provider.'),
      }),
    ),
    ...fields.listed,
  }),
  run: (input, { people, call }) => people.listUsers(call, input),
})
