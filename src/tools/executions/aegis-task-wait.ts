import { defineTool } from '../runtime/define-tool.ts'
import { executionWaiting } from './execution-fields.ts'

export default defineTool({
  ...executionWaiting,
  name: 'aegis.task.wait',
  title: 'Wait for an execution',
  description:
    'Wait until an execution of an agent has ended, and answer its result. One call waits 45 s at most; if it says timed_out, call again.',
  run: (input, { executions, call }) => executions.wait(call, input),
})
