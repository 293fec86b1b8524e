import { runWaiting } from '../run-waiting.ts'
import { defineTool } from '../runtime/define-tool.ts'

export default defineTool({
  ...runWaiting,
  name: 'aegis.workflow.wait',
  toolset: 'workflows',
  trust: { reads: 'run' },
  title: 'Wait for an execution',
  description:
    'Wait until a workflow execution has ended and answer its blackboard and output. One call waits 45 s at most; when it answers timed_out, call again. Use aegis.workflow.status to look without waiting.',
  run: (input, { workflows, call }) => workflows.executions.wait(call, input),
})
