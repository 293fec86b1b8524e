import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { teamName, teamView, tenantOfPeople, user } from './people-fields.ts'

export default defineTool({
  name: 'user_team_create',
  toolset: 'people',
  title: 'Create a team of people',
  description:
    'Create a team of people, with which agents, gateways and servers can be shared. A team of agents in workspaces is something else: that is the tool team.',
  permission: 'userTeam:create',
  tier: 'user',
  effect: 'create',
  idempotent: false,
  rate: 'default',
  skipJudge: false,
  trust: { governs: true },
  input: z.strictObject({
    name: teamName.describe('Name of the team, unique in the organisation.'),
    description: z.string().max(1000).optional().describe('What the team is for.'),
    members: z.array(user).max(1000).optional().describe('Users, by id or e-mail address.'),
    tenant: tenantOfPeople,
  }),
  output: teamView,
  run: (input, { people, call }) => people.createTeam(call, input),
})
