import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { executionFields, executionParams } from './execution-fields.ts'

export default defineTool({
  name: 'aegis.task.status',
  toolset: 'executions',
  trust: { reads: 'run' },
  title: 'See an execution',
  description:
    'Status, iteration and latest output of one execution of an agent. Use aegis.task.wait to wait for its end, aegis.task.logs for its events.',
  permission: 'execution:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  arguments: 'aegis',
  input: z.strictObject({ execution_id: executionParams.executionId }),
  output: z.strictObject({ ...executionFields.state, agent_id: z.string(), status: executionFields.status }),
  run: (input, { executions, call }) => executions.status(call, input),
})
