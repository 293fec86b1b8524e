import { z } from 'zod'
import { fields } from '../params.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { workflowFields, workflowParams } from './workflow-params.ts'

export default defineTool({
  name: 'aegis.workflow.executions.get',
  toolset: 'workflows',
  trust: { reads: 'run' },
  title: 'Read an execution',
  description:
    'Read one workflow execution in full: input, blackboard, what each state left, output. Use aegis.workflow.status for a short answer, aegis.workflow.logs for its events.',
  permission: 'execution:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  arguments: 'aegis',
  input: z.strictObject({ execution_id: workflowParams.execution, tenant_id: workflowParams.tenant }),
  output: z.strictObject({
    ...workflowFields.access,
    workflow_name: z.string(),
    version: z.string(),
    input: workflowFields.data,
    blackboard: workflowFields.data,
    state_outputs: workflowFields.data,
    output: fields.anyJson,
    error: workflowFields.error,
  }),
  run: (input, { workflows, call }) => workflows.executions.get(call, input),
})
