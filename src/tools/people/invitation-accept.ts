import { z } from 'zod'
import { limits } from '../../contract/limits.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { userView } from './people-fields.ts'

export default defineTool({
  name: 'invitation_accept',
  toolset: 'people',
  title: 'Accept an invitation',
  description:
    'Accept an invitation, or choose a new password, with the token of a link. The page of the link does this when a person presses its button; call it yourself only in a program that has no browser. A token works once.',
  permission: null,
  tier: 'user',
  effect: 'update',
  idempotent: false,
  rate: 'default',
  skipJudge: false,
  input: z.strictObject({
    token: z.string().min(20).max(100).describe('The last part of the address of the link.'),
    name: z.string().min(1).max(limits.personNameCharsMax).optional().describe('Name for people to read.'),
    password: z
      .string()
      .min(limits.passwordCharsMin)
      .max(limits.passwordCharsMax)
      .describe('The password to sign in with from now on.'),
  }),
  output: userView,
  before: (input, { people, call }) => people.hashPasswordOf(call, input),
  run: (input, { people, call }) => people.acceptInvitation(call, input),
})
