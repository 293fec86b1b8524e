import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { workflowParams } from './workflow-params.ts'

export default defineTool({
  name: 'aegis.workflow.signal',
  toolset: 'workflows',
  trust: { reads: 'run' },
  title: 'Answer an execution that waits',
  description:
    'Send a person’s answer to a workflow execution that waits in a Human state. aegis.workflow.status has the question and the accepted answers; any other answer is refused, and the run keeps waiting. Agents and runs are refused: a person must answer.',
  permission: 'execution:signal',
  tier: 'user',
  effect: 'update',
  idempotent: false,
  rate: 'default',
  skipJudge: true,
  fails: { kind: 'conflict', field: 'signalled', is: false },
  arguments: 'aegis',
  input: z.strictObject({
    execution_id: workflowParams.execution,
    response: z.string().max(100_000).describe('The answer as text, or the JSON of {"response", "feedback"}.'),
  }),
  output: z.strictObject({
    tool: z.literal('aegis.workflow.signal'),
    signalled: z.boolean(),
    execution_id: z.string(),
    error: z.string().optional().describe('Why not.'),
  }),
  run: (input, { workflows, call }) => workflows.executions.signal(call, input),
})
