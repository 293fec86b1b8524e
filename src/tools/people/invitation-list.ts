import { z } from 'zod'
import { fields, params } from '../params.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { invitationStatus, invitationView, tenantOfPeople } from './people-fields.ts'

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
  input: z.strictObject({
    tenant: tenantOfPeople,
    email: params.part('their e-mail address'),
    status: invitationStatus.optional().describe('Only those that are so now.'),
    ...params.page,
  }),
  output: z.strictObject({ invitations: z.array(invitationView), ...fields.listed }),
  run: (input, { people, call }) => people.listInvitations(call, input),
})
