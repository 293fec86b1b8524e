import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { team, teamView, tenantOfPeople } from './people-fields.ts'

export default defineTool({
  name: 'user_team_delete',
  toolset: 'people',
  title: 'Remove a team of people',
  description:
    'Remove a team of people. The people stay; what is shared with the team alone is left to administrators.',
  permission: 'userTeam:delete',
  tier: 'user',
  effect: 'delete',
  idempotent: false,
  rate: 'default',
  skipJudge: false,
  trust: { governs: true },
  input: z.strictObject({ team, tenant: tenantOfPeople }),
  output: teamView,
  run: (input, { people, call }) => people.deleteTeam(call, input),
})
