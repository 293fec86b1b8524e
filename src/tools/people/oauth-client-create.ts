import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { clientView, gatewaysOfClient, roleOfPerson, tenantOfPeople, tierOfPerson } from './people-fields.ts'

export default defineTool({
  name: 'oauth_client_create',
  toolset: 'people',
  title: 'Create an OAuth client for a program',
  description:
    'Create a confidential OAuth client for a program that acts for itself, such as a nightly job. It gets tokens with the client credentials grant, and only for the gateways in its list. The answer holds the secret, once. Programs that act for a person need none of this: they register themselves and the person allows them. Use api_key_create for a key that is not bound to gateways.',
  permission: 'apiKey:create',
  tier: 'user',
  effect: 'create',
  idempotent: false,
  rate: 'create',
  skipJudge: false,
  trust: { governs: true },
  input: z.strictObject({
    name: z.string().min(1).max(64).describe('Name of the program; its calls are recorded under it.'),
    gateways: gatewaysOfClient,
    role: roleOfPerson
      .default('member')
      .describe('What the client may do: admin, editor, member, or a custom role of the organisation (role_list).'),
    tier: tierOfPerson,
    tenant: tenantOfPeople,
  }),
  output: clientView.extend({
    client_secret: z.string().describe('The secret, shown this once; the id is the client_id.'),
  }),
  run: (input, { people, call }) => people.createClient(call, input),
})
