import { z } from 'zod'
import { fields } from '../params.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { tenantOfPeople, user } from './people-fields.ts'

export default defineTool({
  name: 'user_session_list',
  toolset: 'people',
  title: 'List sessions of a user',
  description:
    'List where a user is signed in: browsers, and clients that the user allowed to act for them; and the passkeys with which the user can sign in.',
  permission: 'member:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  input: z.strictObject({ user, tenant: tenantOfPeople }),
  output: z.strictObject({
    sessions: z.array(
      z.strictObject({
        id: z.string(),
        user: z.string().describe('E-mail address.'),
        kind: z.enum(['browser', 'client', 'passkey']),
        name: z.string().describe('What the browser or the client calls itself, or what the user called the passkey.'),
        address: z.string().nullable().describe('Where the session began.'),
        created_at: fields.time,
        expires_at: fields.time.nullable(),
      }),
    ),
  }),
  run: (input, { people, call }) => people.listSessions(call, input),
})
