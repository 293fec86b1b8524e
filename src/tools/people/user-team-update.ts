import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { team, teamName, teamView, tenantOfPeople, user } from './people-fields.ts'

export default defineTool({
  name: 'user_team_update',
  toolset: 'people',
  title: 'Change a team of people',
  description:
    'Rename or describe a team of people, and add or remove members. A removed member loses what is shared with the team at once.',
  permission: 'userTeam:update',
  tier: 'user',
  effect: 'update',
  idempotent: true,
  rate: 'default',
  skipJudge: false,
  needsChange: true,
  trust: { governs: true },
  input: z.strictObject({
    team,
    name: teamName.optional().describe('New name.'),
    description: z.string().max(1000).optional().describe('New description.'),
    add: z.array(user).max(1000).optional().describe('Users who join, by id or e-mail address.'),
    remove: z.array(user).max(1000).optional().describe('Users who leave, by id or e-mail address.'),
    tenant: tenantOfPeople,
  }),
  output: teamView,
  run: (input, { people, call }) => people.updateTeam(call, input),
})
