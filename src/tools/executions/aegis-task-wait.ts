import { defineTool } from '../runtime/define-tool.ts'
import { waitInput, waitOutput } from './execution-fields.ts'

export default defineTool({
  name: 'aegis.task.wait',
  toolset: 'executions',
  title: 'Wait for an execution',
  description:
    'Wait until an execution of an agent has ended, and answer its result. One call waits 45 s at most; if it says timed_out, call again.',
  permission: 'execution:read',
  tier: 'user',
  effect: 'read',
  idempotent: true,
  rate: 'default',
  skipJudge: true,
  audit: 'digest',
  arguments: 'aegis',
  waits: true,
  input: waitInput,
  output: waitOutput,
  run: (input, { executions, call }) => executions.wait(call, input),
})
