import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { workflowFields, workflowParams } from './workflow-params.ts'

export default defineTool({
  name: 'aegis.workflow.status',
  toolset: 'workflows',
  trust: { reads: 'run' },
  title: 'Status of a workflow execution',
  description:
    'Read status and state of a workflow execution. Use aegis.workflow.wait to wait for its end, aegis.workflow.executions.get for all of it.',
  permission: 'execution:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  arguments: 'aegis',
  input: z.strictObject({ execution_id: workflowParams.execution, tenant_id: workflowParams.tenant }),
  output: z.strictObject({ ...workflowFields.access }),
  run: (input, { workflows, call }) => workflows.executions.status(call, input),
})
