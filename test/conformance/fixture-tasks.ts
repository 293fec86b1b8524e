import { acceptedContent, type InputRequest, inputRequired, ProtocolError } from '@modelcontextprotocol/server'
import type { ExtensionCall } from '../../src/mcp/mcp-extension.ts'
import { declaresTasks, type TaskWork, tasksNeeded } from '../../src/mcp/task-store.ts'
import { type FixtureResult, type FixtureTool, fixtureTool, textResult } from './fixture-content.ts'

/** The fixtures that answer with a task: by themselves, after input, or in no other way. */
const JOB_MS = 200

const ask = (message: string, properties: Record<string, { type: string }>): InputRequest =>
  ({
    method: 'elicitation/create',
    params: { message, requestedSchema: { type: 'object', properties, required: Object.keys(properties) } },
  }) as InputRequest

const knowsTasks = ({ context }: ExtensionCall): boolean => declaresTasks(context.mcpReq.envelope)

/** As a task where the client knows them, and at once elsewhere. */
async function asTask(call: ExtensionCall, work: TaskWork): Promise<FixtureResult> {
  if (knowsTasks(call)) return (await call.createTask(work)) as unknown as FixtureResult
  const never = new AbortController().signal
  return await work({ signal: never, say() {}, ask: () => Promise.reject(tasksNeeded()) })
}

async function onlyAsTask(call: ExtensionCall, work: TaskWork): Promise<FixtureResult> {
  if (!knowsTasks(call)) throw tasksNeeded()
  return (await call.createTask(work)) as unknown as FixtureResult
}

function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms)
    signal.addEventListener('abort', () => {
      clearTimeout(timer)
      reject(new Error('cancelled'))
    })
  })
}

export const taskTools: readonly FixtureTool[] = [
  fixtureTool('greet', 'Greets at once.', ({ name }) => textResult(`Hello, ${String(name)}!`), {
    name: { type: 'string' },
  }),
  fixtureTool('slow_compute', 'Computes for some seconds.', ({ seconds, label }, call) =>
    asTask(call, async ({ signal }) => {
      await sleep(Number(seconds) * 1000, signal)
      return textResult(`Computed ${String(label)}`)
    }),
  ),
  fixtureTool('failing_job', 'Fails after a while.', (_, call) =>
    onlyAsTask(call, async ({ signal }) => {
      await sleep(JOB_MS, signal)
      return { ...textResult('The job failed'), isError: true }
    }),
  ),
  fixtureTool('protocol_error_job', 'Breaks the protocol after a while.', (_, call) =>
    onlyAsTask(call, async ({ signal }) => {
      await sleep(JOB_MS, signal)
      throw new ProtocolError(-32603, 'The job broke')
    }),
  ),
  fixtureTool('confirm_delete', 'Asks before it deletes.', ({ filename }, call) =>
    onlyAsTask(call, async (task) => {
      await task.ask({ confirm: ask(`Delete ${String(filename)}?`, { confirm: { type: 'boolean' } }) })
      return textResult(`Deleted ${String(filename)}`)
    }),
  ),
  fixtureTool('multi_input', 'Asks two things at once.', (_, call) =>
    onlyAsTask(call, async (task) => {
      const name = ask('Name?', { name: { type: 'string' } })
      const answers = await task.ask({ first: name, second: name })
      return textResult(`Got ${Object.keys(answers).join(' and ')}`)
    }),
  ),
  fixtureTool('test_tool_with_task', 'Asks for a name, then goes on as a task.', (_, call) => {
    const name = acceptedContent(call.context.mcpReq.inputResponses, 'user_name')?.['name']
    if (typeof name !== 'string') {
      return inputRequired({ inputRequests: { user_name: ask('What is your name?', { name: { type: 'string' } }) } })
    }
    return onlyAsTask(call, async () => textResult(`Hello, ${name}!`))
  }),
]
