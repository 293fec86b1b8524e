import { runWaiting } from '../run-waiting.ts'
import { defineTool } from '../runtime/define-tool.ts'

export default defineTool({
  ...runWaiting,
  name: 'aegis.execute.wait',
  toolset: 'intents',
  trust: { reads: 'run' },
  title: 'Wait for an intent',
  description:
    'Wait until a pipeline of aegis.execute.intent has ended; the id that it answered is the execution_id. The same as aegis.workflow.wait. One call waits 45 s at most; when it answers timed_out, call again.',
  otherNames: { pipeline_execution_id: 'execution_id' },
  run: (input, { workflows, call }) => workflows.executions.wait(call, input),
})
