import { z } from 'zod'
import { params } from '../params.ts'
import { profileFields, profileParams } from '../profile-params.ts'
import { defineTool } from '../runtime/define-tool.ts'

export default defineTool({
  name: 'list_agents',
  toolset: 'agents',
  title: 'List agents by name',
  description:
    'List the agents that you can see, by name, with who else sees them and their tools. Use get_agent for the prompt of one, and aegis.agent.search to find one by what it does.',
  permission: 'agent:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  audit: 'digest',
  trust: { carries: { as: 'agent', fields: ['agent_id', 'id'] } },
  input: z.strictObject({
    limit: params.limit(100, 1000),
    offset: params.offset,
    name: profileParams.idOrName('Only those whose name has this in it, in any case.').optional(),
  }),
  output: z.strictObject({
    total: z.int().describe('How many there are, whatever the limit.'),
    agents: z.array(
      z.strictObject({
        id: z.string(),
        name: z.string(),
        scope: profileFields.scope,
        description: z.string().nullable(),
        teams: z.array(profileFields.team),
        labels: z.array(profileFields.label),
        tools: z.array(z.strictObject({ name: z.string(), description: z.string().nullable() })),
        knowledgeSources: z.array(
          z.strictObject({
            name: z.string(),
            description: z.string().nullable(),
            type: z.enum(['knowledge_base', 'knowledge_connector']),
          }),
        ),
      }),
    ),
  }),
  run: (input, { agents, call }) => agents.listAgents(call, input),
})
