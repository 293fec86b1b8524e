import { z } from 'zod'
import { params } from '../params.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { workflowFields, workflowParams } from './workflow-params.ts'

export default defineTool({
  name: 'aegis.workflow.search',
  toolset: 'workflows',
  title: 'Search workflows',
  description: 'Find workflows by what they do, best first. Use aegis.workflow.list to see all of them.',
  permission: 'workflow:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  trust: { carries: { as: 'workflow', fields: ['workflow_id', 'id'] } },
  arguments: 'aegis',
  input: z.strictObject({
    query: z.string().min(1).max(1000).describe('What the workflow should do, in plain words.'),
    tenant_id: workflowParams.tenant,
    limit: params.limit(10, 100),
    min_score: z.number().min(0).max(1).default(0.3).describe('Minimum score, from 0 to 1.'),
    labels: z.record(z.string().max(128), z.string().max(256)).optional().describe('Labels that must all match.'),
    include_platform_templates: z.boolean().default(true).describe('Whether those that come with the platform count.'),
  }),
  output: z.strictObject({
    tool: z.literal('aegis.workflow.search'),
    query: z.string(),
    results: z.array(
      z.strictObject({
        id: z.string(),
        name: z.string(),
        version: z.string(),
        description: z.string(),
        labels: workflowFields.labels,
        score: z.number(),
      }),
    ),
    total: z.int(),
  }),
  run: (input, { workflows, call }) => workflows.search(call, input),
})
