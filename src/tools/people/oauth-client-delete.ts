import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { clientView, tenantOfPeople } from './people-fields.ts'

export default defineTool({
  name: 'oauth_client_delete',
  toolset: 'people',
  title: 'Remove an OAuth client of a program',
  description:
    'Remove the OAuth client of a program for good. Its tokens and its calls end at once. To change its gateways, remove it and create it again.',
  permission: 'apiKey:delete',
  tier: 'user',
  effect: 'delete',
  idempotent: false,
  rate: 'default',
  skipJudge: false,
  input: z.strictObject({
    client: z.string().min(1).max(128).describe('Id or name of the client.'),
    tenant: tenantOfPeople,
  }),
  output: clientView,
  run: (input, { people, call }) => people.deleteClient(call, input),
})
