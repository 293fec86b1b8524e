import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { expect, onTestFinished, test } from 'vitest'
import { cleanEnvironment, launcher } from '../support/castellan-client.ts'
import { agentYaml } from '../support/executions.ts'
import { setModelStage } from '../support/model-stage.ts'
import type { Line } from '../support/scripted-model.ts'
import { workflowYaml } from '../support/workflows.ts'

/** A client of the official SDK with the program of its own. */
async function connect(dataDir: string) {
  const client = new Client({ name: 'e2e', version: '1.0.0' })
  const env = cleanEnvironment({ MODEL_KEY: 'k' }) as Record<string, string>
  const args = ['mcp', '--tools', 'full', '--data-dir', dataDir]
  await client.connect(new StdioClientTransport({ command: launcher, args, env }))
  onTestFinished(() => client.close())
  const ask = async (name: string, args: Record<string, unknown>) =>
    (await client.callTool({ name, arguments: args })).structuredContent as Record<string, string>
  /** Resolves `heard` at so many notices; nothing happens to the run meanwhile. */
  const listen = (name: string, execution_id: string | undefined, wanted: number) => {
    const notices: number[] = []
    const heard = Promise.withResolvers<void>()
    const call = { name, arguments: { execution_id, poll_interval_seconds: 1, timeout_seconds: 40 } }
    const answer = client.callTool(call, undefined, {
      onprogress: ({ progress }) => notices.push(progress) >= wanted && heard.resolve(),
    })
    return { notices, heard: heard.promise, answer }
  }
  return { ask, listen }
}

test.each(['aegis.workflow.wait', 'aegis.execute.wait'])(
  '%s tells of itself while a person is waited for',
  {
    timeout: 180_000,
  },
  async (tool) => {
    const { dataDir } = await setModelStage(() => ({ text: 'nobody asks' }))
    const { ask, listen } = await connect(dataDir)
    const states = `
ASK: { kind: Human, prompt: "Go on?", transitions: [{ condition: always, target: END }] }
END: { kind: System, command: "true", transitions: [] }`
    const manifest_yaml = workflowYaml('ask', states)
    await ask('aegis.workflow.create', { manifest_yaml })
    const { execution_id } = await ask('aegis.workflow.run', { name: 'ask' })
    const { notices, heard, answer } = listen(tool, execution_id, 2)
    await heard
    await ask('aegis.workflow.signal', { execution_id, response: 'yes' })
    expect((await answer).structuredContent).toMatchObject({ execution_id })
    expect(notices).toEqual([...new Set(notices)].sort((a, b) => a - b))
  },
)

test('aegis.task.wait tells of itself while the model thinks', async () => {
  const thought = Promise.withResolvers<Line>()
  const { dataDir } = await setModelStage(() => thought.promise)
  const { ask, listen } = await connect(dataDir)
  await ask('aegis.agent.create', { manifest_yaml: agentYaml('plain', '  task: { instruction: "Answer." }\n') })
  const { execution_id } = await ask('aegis.task.execute', { agent_id: 'plain' })
  const { notices, heard, answer } = listen('aegis.task.wait', execution_id, 2)
  await heard
  thought.resolve({ text: 'done' })
  expect((await answer).structuredContent).toMatchObject({ status: 'completed', last_output: 'done' })
  expect(notices).toEqual([...new Set(notices)].sort((a, b) => a - b))
})
