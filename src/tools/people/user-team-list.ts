import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { teamView, tenantOfPeople, truncated } from './people-fields.ts'

export default defineTool({
  name: 'user_team_list',
  toolset: 'people',
  title: 'List teams of people',
  description: 'List the teams of people of an organisation with their members.',
  permission: 'userTeam:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  input: z.strictObject({ tenant: tenantOfPeople }),
  output: z.strictObject({ teams: z.array(teamView), truncated }),
  run: (input, { people, call }) => people.listTeams(call, input),
})
