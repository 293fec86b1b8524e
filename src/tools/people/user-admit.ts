import { z } from 'zod'
import { limits } from '../../contract/limits.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { email, userView } from './people-fields.ts'

export default defineTool({
  name: 'user_admit',
  toolset: 'people',
  title: 'Admit a user of an identity provider',
  description:
    'Make a person a user who signs in through an external identity provider and needs no password here. Their open invitation is accepted; without one they get the default role of the provider, if its settings create users. The sign-in page does this at the first sign-in; call it to prepare an account before that. Use user_create for a person with a password.',
  permission: 'member:create',
  tier: 'user',
  effect: 'create',
  idempotent: true,
  rate: 'default',
  skipJudge: false,
  trust: { governs: true },
  input: z.strictObject({
    provider: z.string().min(1).max(64).describe('Id of the provider in the configuration of the server.'),
    email,
    name: z.string().min(1).max(limits.personNameCharsMax).optional().describe('Name for people to read.'),
  }),
  output: userView,
  run: (input, { people, call }) => people.admitUser(call, input),
})
