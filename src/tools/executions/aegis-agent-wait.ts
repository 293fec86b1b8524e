import { defineTool } from '../runtime/define-tool.ts'
import { executionWaiting } from './execution-fields.ts'

export default defineTool({
  ...executionWaiting,
  name: 'aegis.agent.wait',
  title: 'Wait for an agent',
  description:
    'The same as aegis.task.wait: wait until an execution of an agent has ended. One call waits 45 s at most; if it says timed_out, call again.',
  run: (input, { executions, call }) => executions.wait(call, input),
})
