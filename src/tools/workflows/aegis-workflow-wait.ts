import { z } from 'zod'
import { fields } from '../params.ts'
import { defineTool } from '../runtime/define-tool.ts'
import { workflowFields, workflowParams } from './workflow-params.ts'

export default defineTool({
  name: 'aegis.workflow.wait',
  toolset: 'workflows',
  title: 'Wait for an execution',
  description:
    'Wait until a workflow execution has ended and answer its blackboard and output. One call waits 45 s at most; when it answers timed_out, call again. Use aegis.workflow.status to look without waiting.',
  permission: 'execution:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  audit: 'digest',
  arguments: 'aegis',
  waits: true,
  input: z.strictObject({
    execution_id: workflowParams.execution,
    poll_interval_seconds: z.int().min(1).max(3600).default(5).describe('Has no effect: the end is noticed at once.'),
    timeout_seconds: z.int().min(1).max(86_400).default(300).describe('Longest time to wait, over several calls.'),
  }),
  output: z.strictObject({
    execution_id: z.string(),
    workflow_id: z.string().optional(),
    status: workflowFields.status,
    current_state: workflowFields.state,
    blackboard: workflowFields.data.optional(),
    started_at: fields.time.optional(),
    last_transition_at: fields.time.optional(),
    output: z.unknown().optional(),
    error: workflowFields.error.optional(),
    timed_out: z.boolean().optional(),
    message: z.string().optional(),
  }),
  run: (input, { workflows, call }) => workflows.executions.wait(call, input),
})
