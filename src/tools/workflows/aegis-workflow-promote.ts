import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { workflowParams } from './workflow-params.ts'

export default defineTool({
  name: 'aegis.workflow.promote',
  toolset: 'workflows',
  title: 'Promote a workflow',
  description:
    'Make a workflow visible to more people: from one user to the tenant, or to all tenants, which needs the operator tier. aegis.workflow.demote reverses it.',
  permission: 'workflow:promote',
  tier: 'system',
  effect: 'update',
  idempotent: false,
  rate: 'default',
  skipJudge: false,
  arguments: 'aegis',
  input: z.strictObject({
    name: workflowParams.name,
    target_scope: z.enum(['tenant', 'global']).default('global').describe('Who shall see it.'),
    tenant_id: workflowParams.tenant,
  }),
  output: z.strictObject({
    workflow_id: z.string(),
    name: z.string(),
    promoted: z.boolean(),
    target_scope: z.enum(['tenant', 'global']),
  }),
  run: (input, { workflows, call }) => workflows.promote(call, input),
})
