import { z } from 'zod'
import { profileFields, profileParams } from '../profile-params.ts'
import { defineTool } from '../runtime/define-tool.ts'

export default defineTool({
  name: 'get_agent',
  toolset: 'agents',
  title: 'Get an agent',
  description:
    'Show one agent by id or name: its prompt, who sees it, its tools and the agents that it delegates to. Of several with one name it is yours, then that of a team, then that of the organisation. Use agent_info for its versions and its manifest.',
  permission: 'agent:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  trust: { carries: { as: 'agent', fields: ['agent_id', 'id'] } },
  input: z.strictObject({
    id: profileParams.idOrName('Id of the agent.').optional(),
    name: profileParams.idOrName('Exact name of the agent, if you do not have the id.').optional(),
  }),
  output: profileFields.agent,
  run: (input, { agents, call }) => agents.getAgent(call, input),
})
