import { z } from 'zod'
import { fields, params } from '../params.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { agentFields, agentParams } from './agent-params.ts'

export default defineTool({
  name: 'aegis.agent.list',
  toolset: 'agents',
  title: 'List agents',
  description:
    'List the deployed agents that you can see, each with its latest version: those of your tenant and those that are global. Use aegis.agent.search to find one by what it does.',
  permission: 'agent:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  trust: { carries: { as: 'agent', fields: ['agent_id', 'id'] } },
  arguments: 'aegis',
  input: z.strictObject({
    labels: agentParams.labels,
    status: agentFields.status.optional().describe('Only those with this status.'),
    limit: params.limit(1000, 1000),
    offset: params.offset,
    include_platform_templates: z
      .boolean()
      .default(false)
      .describe('Whether the templates that come with the program are listed too.'),
    details: z
      .boolean()
      .default(false)
      .describe('Whether each has its times, its tenant, its input_schema and how many executions you can see.'),
  }),
  output: z.strictObject({
    agents: z.array(
      z.strictObject({
        ...agentFields.row,
        status: agentFields.status,
        scope: agentFields.scope,
        ...z.strictObject(agentFields.details).partial().shape,
      }),
    ),
    total: fields.total,
    limit: z.int(),
    offset: z.int(),
  }),
  run: (input, { agents, call }) => agents.list(call, input),
})
