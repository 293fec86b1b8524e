import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import OpenAI from 'openai'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { newDataDir } from '../support/real-server.ts'
import { type Line, type ScriptedModel, type SeenRequest, startScriptedModel } from '../support/scripted-model.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'

let model: ScriptedModel
let server: ServerHere
let client: OpenAI
let answer: (request: SeenRequest) => Line = () => ({ text: 'Hello.' })

beforeAll(async () => {
  model = await startScriptedModel((request) => answer(request))
  const dataDir = newDataDir()
  mkdirSync(dataDir, { recursive: true })
  const models = [{ alias: 'default', model: 'some-model' }]
  const providers = [
    { name: 'claude', type: 'anthropic', endpoint: `${model.url}/v1`, models },
    { name: 'google', type: 'gemini', endpoint: `${model.url}/v1beta`, models },
    { name: 'local', type: 'openai-compatible', endpoint: `${model.url}/v1`, models },
  ]
  writeFileSync(join(dataDir, 'castellan.yaml'), JSON.stringify({ models: { providers } }))
  server = await startServerHere({ dataDir })
  const baseURL = `${new URL(server.url).origin}/v1/model-router`
  client = new OpenAI({ apiKey: 'castellan', baseURL, maxRetries: 0 })
})
afterAll(async () => {
  await server.stop()
  await model.stop()
})
beforeEach(() => {
  answer = () => ({ text: 'Hello.', tokens: { input: 11, output: 3 } })
})

const tools = [
  { type: 'function', function: { name: 'weather', parameters: { type: 'object', properties: { city: {} } } } },
] as const
const messages = [
  { role: 'system', content: 'Be brief.' },
  { role: 'user', content: 'Hi' },
] as const

describe.each(['claude:some-model', 'google:some-model', 'local:some-model'])('the router, for %s', (name) => {
  it('answers in the format of OpenAI', async () => {
    const whole = await client.chat.completions.create({ model: name, messages: [...messages] })
    expect(whole.choices[0]).toMatchObject({ message: { role: 'assistant', content: 'Hello.' }, finish_reason: 'stop' })
    expect(whole.usage).toMatchObject({ prompt_tokens: 11, completion_tokens: 3, total_tokens: 14 })
    expect(model.requests.at(-1)).toMatchObject({ model: 'some-model' })
  })

  it('streams in the format of OpenAI', async () => {
    const stream = await client.chat.completions.create({
      model: name,
      messages: [...messages],
      stream: true,
      stream_options: { include_usage: true },
    })
    let text = ''
    let reason: string | null = null
    let total = 0
    for await (const chunk of stream) {
      text += chunk.choices[0]?.delta.content ?? ''
      reason = chunk.choices[0]?.finish_reason ?? reason
      total = chunk.usage?.total_tokens ?? total
    }
    expect({ text, reason, total }).toEqual({ text: 'Hello.', reason: 'stop', total: 14 })
  })

  it('passes calls of tools both ways, whole and streamed', async () => {
    answer = ({ messages: seen }) =>
      seen.some(({ role }) => role === 'tool')
        ? { text: 'Warm.' }
        : { toolCalls: [{ name: 'weather', arguments: { city: 'Rome' } }] }
    const runner = client.chat.completions.stream({ model: name, messages: [...messages], tools: [...tools] })
    const first = await runner.finalMessage()
    const [call] = first.tool_calls!
    expect(JSON.parse((call as { function: { arguments: string } }).function.arguments)).toEqual({ city: 'Rome' })
    const second = await client.chat.completions.create({
      model: name,
      messages: [...messages, first, { role: 'tool', tool_call_id: call!.id, content: '{"degrees":21}' }],
      tools: [...tools],
    })
    expect(second.choices[0]!.message.content).toBe('Warm.')
  })

  it('tells refusals of the provider as OpenAI would', async () => {
    answer = () => ({ status: 429 })
    const refused = client.chat.completions.create({ model: name, messages: [...messages] })
    await expect(refused).rejects.toBeInstanceOf(OpenAI.RateLimitError)
  })
})

it('lists the models that are configured', async () => {
  const listed = await client.models.list()
  expect(listed.data.map(({ id }) => id).sort()).toEqual(['claude:some-model', 'google:some-model', 'local:some-model'])
})

it.each([
  ['a model without a provider', { model: 'some-model', messages: [...messages] }, 'model: must be provider:model'],
  ['an unknown provider', { model: 'nobody:m', messages: [...messages] }, 'one of these providers'],
  [
    'what the provider cannot be told',
    { model: 'claude:m', messages: [...messages], n: 2 },
    'n: models of Anthropic do not support this',
  ],
])('%s is refused before anything is asked', async (_, body, message) => {
  const before = model.requests.length
  await expect(client.chat.completions.create(body)).rejects.toThrow(message)
  expect(model.requests).toHaveLength(before)
})
