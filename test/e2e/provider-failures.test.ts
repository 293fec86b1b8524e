import { expect, onTestFinished, test } from 'vitest'
import { cutAt, type Fate, startBadLine, whole } from '../support/bad-line.ts'
import { ask } from '../support/castellan-client.ts'
import { agentYaml } from '../support/executions.ts'
import { setModelStage } from '../support/model-stage.ts'
import { inTurn, type Line, startScriptedModel } from '../support/scripted-model.ts'

const nonsense: Fate = (_, response) => response.end('data: {"choices": [{"mess\n\n')

/** The real program with a model far away, over a line that does what `fateOf` says to each answer. */
async function stageFar(lines: readonly Line[], fateOf: (position: number) => Fate | undefined, more: object = {}) {
  const model = await startScriptedModel(inTurn(...lines))
  onTestFinished(() => model.stop())
  const url = await startBadLine(model.url, fateOf)
  const provider = {
    name: 'far',
    type: 'openai',
    endpoint: `${url}/v1`,
    api_key: 'env:MODEL_KEY',
    models: [{ alias: 'default', model: 'm' }],
    ...more,
  }
  const stage = await setModelStage(() => ({ text: 'nobody asks this one' }), {
    models: { providers: [provider], retry_delay_ms: 1, max_retries: 3 },
  })
  return { client: await stage.start(), requests: model.requests }
}

type Stage = Awaited<ReturnType<typeof stageFar>>
type Event = Readonly<{ event_type: string; payload: Record<string, unknown> }>

async function run({ client }: Stage, spec = '  task: { instruction: "Answer." }\n') {
  await ask(client, 'aegis.agent.create', { manifest_yaml: agentYaml('plain', spec) })
  const { execution_id } = await ask<{ execution_id: string }>(client, 'aegis.task.execute', { agent_id: 'plain' })
  const end = await ask(client, 'aegis.task.wait', { execution_id, timeout_seconds: 45 })
  const { events } = await ask<{ events: Event[] }>(client, 'aegis.task.logs', { execution_id, limit: 200 })
  const failures = events
    .filter(({ event_type }) => event_type === 'llm_call_failed')
    .map(({ payload }) => payload['error_class'])
  return { end, events, failures }
}

test('a limit, an answer cut half-way and one that is no JSON are tried again, and the log tells each', {
  timeout: 180_000,
}, async () => {
  const fates = [whole, cutAt(0.5), nonsense]
  const stage = await stageFar([{ status: 429 }, { text: 'at last' }], (position) => fates[position])
  const { end, failures } = await run(stage)
  expect(end).toMatchObject({ status: 'completed', iteration_count: 1, last_output: 'at last' })
  expect(failures).toEqual(['rate_limit', 'network', 'provider'])
  expect(stage.requests).toHaveLength(4)
})

const long = 'The answer is long enough that it comes in many parts, and half of it would look like an answer as well.'

test('a stream that is cut in the middle is asked for again, and no half of it is taken for the answer', {
  timeout: 180_000,
}, async () => {
  const fates = [cutAt(0.5), cutAt(0.5, 'ended')]
  const stage = await stageFar([{ text: long }], (position) => fates[position])
  const { end, failures } = await run(stage)
  expect(end).toMatchObject({ status: 'completed', iteration_count: 1, last_output: long })
  expect(failures).toEqual(['network', 'network'])
  expect(stage.requests.map(({ isStream }) => isStream)).toEqual([true, true, true])
})

test('a stream that is always cut fails the execution with the reason, and its tools are never called', {
  timeout: 180_000,
}, async () => {
  const call = { name: 'fs_write', arguments: { path: '/workspace/half.txt', content: long.repeat(5) } }
  const stage = await stageFar([{ toolCalls: [call] }], (position) =>
    cutAt(0.6, position % 2 === 0 ? 'broken' : 'ended'),
  )
  const spec = '  task: { instruction: "Write." }\n  tools: [fs.write]\n  execution: { max_iterations: 1 }\n'
  const { end, events, failures } = await run(stage, spec)
  expect(end).toMatchObject({ status: 'failed' })
  expect(JSON.stringify(end)).toContain('broke off')
  expect(failures).toEqual(['network', 'network', 'network', 'network'])
  expect(events.filter(({ event_type }) => /tool/.test(event_type))).toEqual([])
})

test('a provider that does not stream is asked for the whole answer at once', async () => {
  const stage = await stageFar([{ text: long }], (position) => (position === 0 ? cutAt(0.5) : whole), { stream: false })
  const { end, failures } = await run(stage)
  expect(end).toMatchObject({ status: 'completed', last_output: long })
  expect(failures).toEqual(['network'])
  expect(stage.requests.map(({ isStream }) => isStream)).toEqual([false, false])
})
