import { z } from 'zod'
import { fields, params } from '../params.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { clientView, tenantOfPeople } from './people-fields.ts'

export default defineTool({
  name: 'oauth_client_list',
  toolset: 'people',
  title: 'List OAuth clients of programs',
  description:
    'List the OAuth clients of programs that act for themselves, with the gateways that each may use. Clients that act for a person are not among them: user_session_list shows those.',
  permission: 'apiKey:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  input: z.strictObject({ tenant: tenantOfPeople, name: params.part('their name'), ...params.page }),
  output: z.strictObject({ clients: z.array(clientView), ...fields.listed }),
  run: (input, { people, call }) => people.listClients(call, input),
})
