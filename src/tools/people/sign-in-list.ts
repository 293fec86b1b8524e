import { z } from 'zod'
import { fields, params } from '../params.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { tenantOfPeople } from './people-fields.ts'

const outcome = z.enum([
  'signed_in',
  'refused',
  'slowed',
  'passkey_added',
  'passkey_removed',
  'device_allowed',
  'code_refused',
])

export default defineTool({
  name: 'sign_in_list',
  toolset: 'people',
  // Who tries to sign in types what they like.
  trust: { source: 'record' },
  title: 'List attempts to sign in',
  description:
    'List the latest attempts to sign in, newest first: which e-mail address, from where, and whether it succeeded. After several failures further attempts are slowed. That a person added or removed a passkey is listed too, and that they allowed a terminal (castellan login --device) or typed a wrong code for one.',
  permission: 'member:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  input: z.strictObject({
    tenant: tenantOfPeople,
    email: params.part('the e-mail address'),
    outcome: outcome.optional().describe('Only those that ended so.'),
    ...params.page,
  }),
  output: z.strictObject({
    attempts: z.array(
      z.strictObject({
        at: fields.time,
        email: z.string(),
        address: z.string(),
        outcome,
      }),
    ),
    ...fields.listed,
  }),
  run: (input, { people, call }) => people.listAttempts(call, input),
})
