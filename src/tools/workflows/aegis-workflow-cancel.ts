import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { workflowParams } from './workflow-params.ts'

export default defineTool({
  name: 'aegis.workflow.cancel',
  toolset: 'workflows',
  trust: { reads: 'run' },
  title: 'Cancel an execution',
  description:
    'Cancel a workflow execution with all that runs below it. Use aegis.workflow.remove to remove the record of one that has ended.',
  permission: 'execution:cancel',
  tier: 'user',
  effect: 'update',
  whenDiskFull: true,
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  fails: { kind: 'conflict', field: 'cancelled', is: false },
  arguments: 'aegis',
  input: z.strictObject({ execution_id: workflowParams.execution }),
  output: z.strictObject({
    tool: z.literal('aegis.workflow.cancel'),
    cancelled: z.boolean(),
    execution_id: z.string(),
    error: z.string().optional().describe('Why not.'),
  }),
  run: (input, { workflows, call }) => workflows.executions.cancel(call, input),
})
