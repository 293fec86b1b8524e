import { expect, test } from 'vitest'
import { ask } from '../support/castellan-client.ts'
import { agentYaml } from '../support/executions.ts'
import { setModelStage } from '../support/model-stage.ts'

test('an execution that the server dies of each time fails in the end', async () => {
  const asked: (() => void)[] = []
  const stage = await setModelStage((_, position) => {
    asked[position]?.()
    return new Promise(() => {})
  })
  const next = () => new Promise<void>((resolve) => asked.push(resolve))
  const yaml = agentYaml('deadly', '  task: { instruction: "Work." }\n')
  let reached = next()
  let client = await stage.startProcess()
  await ask(client, 'aegis.agent.create', { manifest_yaml: yaml })
  const { execution_id } = await ask(client, 'aegis.task.execute', { agent_id: 'deadly' })
  for (let deaths = 0; deaths < 4; deaths++) {
    await reached
    client.kill('SIGKILL')
    await client.ended
    reached = next()
    client = await (deaths < 3 ? stage.startProcess() : stage.start())
  }
  const end = await ask(client, 'aegis.task.wait', { execution_id, timeout_seconds: 40 })
  expect(end).toMatchObject({ status: 'failed', last_error: expect.stringContaining('ERR_RUN_STUCK') })
  expect(stage.requests).toHaveLength(4)
})
