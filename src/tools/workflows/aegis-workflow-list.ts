import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { workflowFields, workflowParams } from './workflow-params.ts'

export default defineTool({
  name: 'aegis.workflow.list',
  toolset: 'workflows',
  title: 'List workflows',
  description:
    'List registered workflows, each in its newest version. Use aegis.workflow.search to find one by what it does.',
  permission: 'workflow:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  trust: { carries: { as: 'workflow', fields: ['workflow_id', 'id'] } },
  arguments: 'aegis',
  input: z.strictObject({
    tenant_id: workflowParams.tenant,
    scope: z
      .enum(['global', 'visible'])
      .optional()
      .describe(
        'global: those of the platform; visible: your own, your tenant’s and the global ones; left out: all of your tenant.',
      ),
    user_id: workflowParams.user,
  }),
  output: z.strictObject({
    workflows: z.array(
      z.strictObject({
        id: z.string(),
        name: z.string(),
        version: z.string(),
        initial_state: z.string(),
        scope: workflowFields.scope,
        description: z.string(),
        labels: workflowFields.labels,
      }),
    ),
  }),
  run: (input, { workflows, call }) => workflows.list(call, input),
})
