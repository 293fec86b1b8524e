import { z } from 'zod'
import { fields, params } from '../params.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { teamView, tenantOfPeople } from './people-fields.ts'

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
  input: z.strictObject({ tenant: tenantOfPeople, name: params.part('their name'), ...params.page }),
  output: z.strictObject({ teams: z.array(teamView), ...fields.listed }),
  run: (input, { people, call }) => people.listTeams(call, input),
})
