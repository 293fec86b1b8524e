import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { invitationView, tenantOfPeople } from './people-fields.ts'

export default defineTool({
  name: 'invitation_cancel',
  toolset: 'people',
  title: 'Cancel an invitation',
  description:
    'Cancel an invitation, so that its link stops working. One that was accepted stays accepted; remove the user with user_delete.',
  permission: 'invitation:cancel',
  tier: 'user',
  effect: 'update',
  idempotent: true,
  rate: 'default',
  skipJudge: false,
  input: z.strictObject({
    invitation: z.string().min(1).max(128).describe('Id of the invitation.'),
    tenant: tenantOfPeople,
  }),
  output: invitationView,
  run: (input, { people, call }) => people.cancelInvitation(call, input),
})
