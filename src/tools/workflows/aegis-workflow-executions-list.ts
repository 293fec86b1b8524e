import { z } from 'zod'
import { params } from '../params.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { workflowFields, workflowParams } from './workflow-params.ts'

export default defineTool({
  name: 'aegis.workflow.executions.list',
  toolset: 'workflows',
  trust: { reads: 'run' },
  title: 'List executions of workflows',
  description:
    'List workflow executions, newest first: your own, or all of the tenant for an admin. Use aegis.workflow.executions.get for one in full.',
  permission: 'execution:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  arguments: 'aegis',
  input: z.strictObject({
    limit: params.limit(20, 200),
    offset: params.offset,
    workflow_id: z.string().min(1).max(128).optional().describe('Only of this workflow: id or name.'),
    tenant_id: workflowParams.tenant,
  }),
  output: z.strictObject({
    executions: z.array(z.strictObject({ ...workflowFields.access, workflow_name: z.string(), version: z.string() })),
    total: z.int(),
    limit: z.int(),
    offset: z.int(),
  }),
  run: (input, { workflows, call }) => workflows.executions.list(call, input),
})
