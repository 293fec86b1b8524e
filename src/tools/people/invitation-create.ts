import { z } from 'zod'
import { limits } from '../../contract/limits.ts'
import { defineTool } from '../runtime/define-tool.ts'
import {
  email,
  invitationView,
  link,
  roleOfPerson,
  teamsOfPerson,
  tenantOfPeople,
  tierOfPerson,
} from './people-fields.ts'

export default defineTool({
  name: 'invitation_create',
  toolset: 'people',
  title: 'Invite a person',
  description:
    'Invite a person to your organisation. The answer has a one-time link: the person who opens it chooses a name and a password, and becomes a user. Where a mail server is configured, the link is also mailed, and `mail` says whether that worked. Hand it to that person only.',
  permission: 'invitation:create',
  tier: 'user',
  effect: 'create',
  idempotent: false,
  rate: 'create',
  skipJudge: false,
  trust: { governs: true },
  input: z.strictObject({
    email,
    role: roleOfPerson.default('member'),
    tier: tierOfPerson,
    teams: teamsOfPerson,
    expires_in_hours: z
      .int()
      .min(1)
      .max(limits.invitationMsMax / 3_600_000)
      .optional()
      .describe('How long the link works; a week when left out.'),
    tenant: tenantOfPeople,
  }),
  output: invitationView.extend({
    link,
    mail: z
      .enum(['sent', 'failed', 'off'])
      .describe('Whether the mail server took a mail with the link; `off` where none is configured.'),
  }),
  before: (input, { people, call }) => people.mailInvitation(call, input),
  run: (input, { people, call }) => people.invite(call, input),
})
