import { createServer, request, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { agentYaml } from '../support/executions.ts'
import { ask, setModelStage } from '../support/model-stage.ts'
import { startScriptedModel } from '../support/scripted-model.ts'

/** What happens to the bytes of the model's answer on their way: they come, they stop half-way, or they are changed. */
type Fate = (answer: Buffer, response: ServerResponse) => void

const whole: Fate = (answer, response) => response.end(answer)
const cut: Fate = (answer, response) => {
  response.write(answer.subarray(0, answer.length / 2), () => response.destroy())
}
const broken: Fate = (answer, response) => response.end(answer.subarray(0, answer.length / 2))

/** Between the program and the scripted model; answers meet their fates in turn, then all come through. */
async function startBadLine(target: string, fates: readonly Fate[]): Promise<string> {
  let count = 0
  const server = createServer((incoming, response) => {
    const { method, headers, url } = incoming
    const onward = request(new URL(url!, target), { method, headers }, async (answer) => {
      const parts: Buffer[] = []
      for await (const part of answer) parts.push(part as Buffer)
      response.writeHead(answer.statusCode!, { 'content-type': answer.headers['content-type'] ?? '' })
      ;(fates[count++] ?? whole)(Buffer.concat(parts), response)
    })
    incoming.pipe(onward)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

test('a limit, an answer cut half-way and one that is no JSON are tried again, and the log tells each', {
  timeout: 90_000,
}, async () => {
  const model = await startScriptedModel((_, position) => (position === 0 ? { status: 429 } : { text: 'at last' }))
  onTestFinished(() => model.stop())
  const url = await startBadLine(model.url, [whole, cut, broken])
  const provider = {
    name: 'far',
    type: 'openai',
    endpoint: `${url}/v1`,
    api_key: 'env:MODEL_KEY',
    models: [{ alias: 'default', model: 'm' }],
  }
  const stage = await setModelStage(() => ({ text: 'nobody asks this one' }), {
    models: { providers: [provider], retry_delay_ms: 1 },
  })
  const client = await stage.start()
  await ask(client, 'aegis.agent.create', { manifest_yaml: agentYaml('plain', '  task: { instruction: "Answer." }\n') })
  const { execution_id } = await ask<{ execution_id: string }>(client, 'aegis.task.execute', { agent_id: 'plain' })
  expect(await ask(client, 'aegis.task.wait', { execution_id, timeout_seconds: 45 })).toMatchObject({
    status: 'completed',
    iteration_count: 1,
    last_output: 'at last',
  })
  const { events } = await ask<{ events: { event_type: string; payload: Record<string, unknown> }[] }>(
    client,
    'aegis.task.logs',
    { execution_id },
  )
  const failures = events.filter(({ event_type }) => event_type === 'llm_call_failed')
  expect(failures.map(({ payload }) => payload['error_class'])).toEqual(['rate_limit', 'network', 'provider'])
  expect(model.requests).toHaveLength(4)
})
