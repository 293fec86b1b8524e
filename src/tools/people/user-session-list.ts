import { z } from 'zod'
import { fields } from '../params.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { tenantOfPeople, userOrSelf } from './people-fields.ts'

const sessionKind = z.enum(['browser', 'client', 'passkey'])

export default defineTool({
  name: 'user_session_list',
  toolset: 'people',
  title: 'List sessions of a user',
  description:
    'List where you are signed in: browsers, and clients that you allowed to act for you; and the passkeys with which you can sign in. With the permission member:read also those of another user.',
  permission: null,
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  input: z.strictObject({
    user: userOrSelf,
    kind: sessionKind.optional().describe('Only those of this kind.'),
    tenant: tenantOfPeople,
  }),
  output: z.strictObject({
    sessions: z.array(
      z.strictObject({
        id: z.string(),
        user: z.string().describe('E-mail address.'),
        kind: sessionKind,
        name: z.string().describe('What the browser or the client calls itself, or what the user called the passkey.'),
        address: z.string().nullable().describe('Where the session began.'),
        created_at: fields.time,
        expires_at: fields.time.nullable(),
      }),
    ),
    total: fields.listed.total,
  }),
  run: (input, { people, call }) => people.listSessions(call, input),
})
