import { expect, test } from 'vitest'
import type { CastellanClient } from '../support/castellan-client.ts'
import { ask } from '../support/castellan-client.ts'
import { agentYaml } from '../support/executions.ts'
import { setModelStage } from '../support/model-stage.ts'
import type { Line, SeenRequest } from '../support/scripted-model.ts'

const isAuthor = ({ text }: SeenRequest) => text.includes('Write the manifest of a')
const isFormatter = ({ text }: SeenRequest) => text.includes('output of the program')
const json = (value: object): Line => ({ text: JSON.stringify(value) })
const zebra = agentYaml('zebra', '  task: { instruction: "Write programs." }\n')

async function prompt(client: CastellanClient, intent: string) {
  const { pipeline_execution_id: id } = await ask<{ pipeline_execution_id: string }>(client, 'aegis.execute.intent', {
    intent,
  })
  await ask(client, 'aegis.execute.wait', { execution_id: id, timeout_seconds: 45 })
  const { events } = await ask<{ events: { event_type: string }[] }>(client, 'aegis.workflow.logs', {
    execution_id: id,
    limit: 200,
  })
  const { status, reused_existing_agent } = await ask(client, 'aegis.execute.status', { pipeline_execution_id: id })
  return { status, reused_existing_agent, types: events.map(({ event_type }) => event_type) }
}

test('the same intent uses the agent that was made for it, and the shipped one does what none could be made for', {
  timeout: 180_000,
}, async () => {
  let isAble = true
  const { requests, start } = await setModelStage((request) => {
    if (isAuthor(request))
      return isAble ? json({ manifest_yaml: zebra, summary: 'as requested' }) : { text: 'I cannot.' }
    return isFormatter(request) ? { text: 'Two.' } : json({ file: 'solution', code: 'print(2)' })
  })
  const client = await start()
  expect(await prompt(client, 'Add one and one.')).toMatchObject({ status: 'completed', reused_existing_agent: false })
  const authored = requests.filter(isAuthor).length
  expect(await prompt(client, 'Add one and one. ')).toMatchObject({ status: 'completed', reused_existing_agent: true })
  expect(requests.filter(isAuthor)).toHaveLength(authored)
  isAble = false
  const stoodIn = await prompt(client, 'Paint the fence.')
  expect(stoodIn).toMatchObject({ status: 'completed', reused_existing_agent: true })
  expect(stoodIn.types).toContain('agent_generation_failed')
})
