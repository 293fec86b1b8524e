import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { workflowParams } from './workflow-params.ts'

export default defineTool({
  name: 'aegis.workflow.remove',
  toolset: 'workflows',
  trust: { reads: 'run' },
  title: 'Remove the record of an execution',
  description:
    'Remove a workflow execution that has ended, with its events. Use aegis.workflow.cancel first for one that runs, aegis.workflow.delete for the workflow itself.',
  permission: 'execution:delete',
  tier: 'operator',
  effect: 'delete',
  idempotent: false,
  rate: 'default',
  skipJudge: true,
  fails: { kind: 'conflict', field: 'removed', is: false },
  arguments: 'aegis',
  input: z.strictObject({ execution_id: workflowParams.execution }),
  output: z.strictObject({
    tool: z.literal('aegis.workflow.remove'),
    removed: z.boolean(),
    execution_id: z.string(),
    error: z.string().optional().describe('Why not.'),
  }),
  run: (input, { workflows, call }) => workflows.executions.remove(call, input),
})
