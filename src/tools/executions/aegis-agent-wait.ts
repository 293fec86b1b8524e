import { defineTool } from '../runtime/define-tool.ts'
import { waitInput, waitOutput } from './execution-fields.ts'

export default defineTool({
  name: 'aegis.agent.wait',
  toolset: 'executions',
  title: 'Wait for an agent',
  description:
    'The same as aegis.task.wait: wait until an execution of an agent has ended. One call waits 45 s at most; if it says timed_out, call again.',
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
