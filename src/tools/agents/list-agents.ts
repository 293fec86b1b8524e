import { z } from 'zod'
import { fields } from '../params.ts'
import { profileFields, profileListParams } from '../profile-params.ts'
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
  trust: { carries: { as: 'agent', fields: ['agent_id', 'id'] } },
  input: profileListParams,
  output: z.strictObject({
    total: fields.total,
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
