import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { invitationView, tenantOfPeople, truncated } from './people-fields.ts'

export default defineTool({
  name: 'invitation_list',
  toolset: 'people',
  title: 'List invitations',
  description:
    'List the invitations of an organisation, newest first, with their outcome. Their links are not stored and cannot be listed.',
  permission: 'invitation:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  input: z.strictObject({ tenant: tenantOfPeople }),
  output: z.strictObject({ invitations: z.array(invitationView), truncated }),
  run: (input, { people, call }) => people.listInvitations(call, input),
})
