import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { executionParams } from './execution-fields.ts'

export default defineTool({
  name: 'aegis.task.remove',
  toolset: 'executions',
  trust: { reads: 'run' },
  title: 'Remove an execution',
  description:
    'Remove an ended execution of an agent with its events. Its entries in the log stay. Use aegis.task.cancel first if it has not ended.',
  permission: 'execution:delete',
  tier: 'operator',
  effect: 'delete',
  idempotent: false,
  rate: 'default',
  skipJudge: false,
  arguments: 'aegis',
  input: z.strictObject({ execution_id: executionParams.executionId }),
  output: z.strictObject({ execution_id: z.string(), removed: z.boolean() }),
  run: (input, { executions, call }) => executions.remove(call, input),
})
