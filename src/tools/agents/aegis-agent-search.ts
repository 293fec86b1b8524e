import { z } from 'zod'
import { limits } from '../../contract/limits.ts'
import { params } from '../params.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { agentFields, agentParams } from './agent-params.ts'

export default defineTool({
  name: 'aegis.agent.search',
  toolset: 'agents',
  title: 'Search agents',
  description:
    'Find agents by what they do, best first. With mode semantic the scores compare meanings; with mode keyword no model is configured and they count words. Use aegis.agent.list to see all.',
  permission: 'agent:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  trust: { carries: { as: 'agent', fields: ['agent_id', 'id'] } },
  arguments: 'aegis',
  input: z.strictObject({
    query: z.string().min(1).max(limits.searchQueryCharsMax).describe('What the agent should do, in plain words.'),
    tenant_id: agentParams.tenantId,
    limit: params.limit(10, 100),
    min_score: z.number().min(0).max(1).default(0.3).describe('Minimum score, from 0 to 1.'),
    labels: agentParams.labels,
    status: z.enum(['active', 'paused', 'failed']).optional().describe('Only those with this status.'),
    include_platform_templates: z
      .boolean()
      .default(true)
      .describe('Whether the templates that come with the program are searched too.'),
  }),
  output: z.strictObject({
    tool: z.literal('aegis.agent.search'),
    query: z.string(),
    results: z.array(z.strictObject({ ...agentFields.row, score: z.number() })),
    total: z.int(),
    mode: z.enum(['semantic', 'keyword']),
  }),
  run: (input, { agents, call }) => agents.search(call, input),
})
