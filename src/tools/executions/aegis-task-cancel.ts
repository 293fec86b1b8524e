import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { executionParams } from './execution-fields.ts'

export default defineTool({
  name: 'aegis.task.cancel',
  toolset: 'executions',
  trust: { reads: 'run' },
  title: 'Cancel an execution',
  description:
    'Stop an execution of an agent with all that runs below it: model calls and processes end at once, and its workspace is removed.',
  permission: 'execution:cancel',
  tier: 'user',
  effect: 'update',
  whenDiskFull: true,
  idempotent: false,
  rate: 'default',
  skipJudge: false,
  arguments: 'aegis',
  input: z.strictObject({ execution_id: executionParams.executionId }),
  output: z.strictObject({ execution_id: z.string(), cancelled: z.boolean() }),
  run: (input, { executions, call }) => executions.cancel(call, input),
})
