import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { workflowParams } from './workflow-params.ts'

export default defineTool({
  name: 'aegis.workflow.demote',
  toolset: 'workflows',
  title: 'Demote a workflow',
  description:
    'Make a workflow visible to fewer people: from all tenants to this one, or to one user. aegis.workflow.promote reverses it.',
  permission: 'workflow:promote',
  tier: 'system',
  effect: 'update',
  idempotent: false,
  rate: 'default',
  skipJudge: false,
  arguments: 'aegis',
  input: z.strictObject({
    name: workflowParams.name,
    target_scope: z.enum(['tenant', 'user']).default('tenant').describe('Who shall see it.'),
    user_id: workflowParams.user,
    tenant_id: workflowParams.tenant,
  }),
  output: z.strictObject({
    workflow_id: z.string(),
    name: z.string(),
    demoted: z.boolean(),
    target_scope: z.enum(['tenant', 'user']),
  }),
  run: (input, { workflows, call }) => workflows.demote(call, input),
})
