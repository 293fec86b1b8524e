import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import Anthropic from '@anthropic-ai/sdk'
import { GoogleGenAI } from '@google/genai'
import OpenAI from 'openai'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { newDataDir } from '../support/real-server.ts'
import { type Line, type ScriptedModel, startScriptedModel } from '../support/scripted-model.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'

/** The packages of the providers, as people have them, through the server to a model server on this machine. */
let model: ScriptedModel
let server: ServerHere
let origin: string
let next: Line = { text: 'hello' }

beforeAll(async () => {
  model = await startScriptedModel(() => next)
  const dataDir = newDataDir()
  const provider = (name: string, type: string, path: string) => ({
    name,
    type,
    endpoint: `${model.url}${path}`,
    api_key: 'env:MODEL_KEY',
    models: [{ alias: 'default', model: 'm' }],
  })
  const providers = [
    provider('first', 'openai', '/v1'),
    provider('second', 'anthropic', '/v1'),
    provider('third', 'gemini', '/v1beta'),
    provider('local', 'openai-compatible', '/v1'),
  ]
  writeFileSync(join(dataDir, 'castellan.yaml'), JSON.stringify({ models: { providers } }))
  process.env['MODEL_KEY'] = 'key-of-the-operator'
  server = await startServerHere({ dataDir })
  origin = new URL(server.url).origin
})
afterAll(async () => {
  await server.stop()
  await model.stop()
  delete process.env['MODEL_KEY']
})
beforeEach(() => {
  next = { text: 'hello', tokens: { input: 11, output: 5 } }
})

const tool = {
  name: 'get_weather',
  description: 'Tells the weather.',
  parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
}
const calls = [
  { name: 'get_weather', arguments: { city: 'Rome' }, id: 'call_1' },
  { name: 'get_weather', arguments: { city: 'Oslo' }, id: 'call_2' },
]

describe.each(['openai', 'local'])('the package openai, through /v1/%s', (provider) => {
  const client = () => new OpenAI({ baseURL: `${origin}/v1/${provider}`, apiKey: 'castellan', maxRetries: 0 })
  const messages = [{ role: 'user' as const, content: 'hi' }]

  it('answers at once and in a stream', async () => {
    const whole = await client().chat.completions.create({ model: 'gpt-4o', messages })
    expect(whole.choices[0]!.message.content).toBe('hello')
    expect(whole.usage).toMatchObject({ prompt_tokens: 11, completion_tokens: 5 })
    let text = ''
    const usages = []
    for await (const chunk of await client().chat.completions.create({ model: 'gpt-4o', messages, stream: true })) {
      text += chunk.choices[0]?.delta.content ?? ''
      if (chunk.usage) usages.push(chunk.usage)
    }
    expect(text).toBe('hello')
    expect(usages).toEqual([])
  })

  it('calls tools, several at once, in a stream too', async () => {
    next = { toolCalls: calls }
    const tools = [{ type: 'function' as const, function: tool }]
    const whole = await client().chat.completions.create({ model: 'gpt-4o', messages, tools })
    expect(whole.choices[0]!.message.tool_calls).toHaveLength(2)
    const streamed = await client().chat.completions.stream({ model: 'gpt-4o', messages, tools }).finalChatCompletion()
    expect(streamed.choices[0]!.message.tool_calls).toMatchObject([
      { id: 'call_1', function: { arguments: JSON.stringify({ city: 'Rome' }) } },
      { id: 'call_2', function: { arguments: JSON.stringify({ city: 'Oslo' }) } },
    ])
  })

  it('gets the usage of a stream if it asks', async () => {
    const usages = []
    const stream_options = { include_usage: true }
    const stream = await client().chat.completions.create({ model: 'gpt-4o', messages, stream: true, stream_options })
    for await (const chunk of stream) if (chunk.usage) usages.push(chunk.usage)
    expect(usages).toHaveLength(1)
  })

  it('uses responses, images, embeddings and models', async () => {
    const input = 'hi'
    expect((await client().responses.create({ model: 'gpt-4o', input })).output_text).toBe('hello')
    let text = ''
    for await (const event of await client().responses.create({ model: 'gpt-4o', input, stream: true })) {
      if (event.type === 'response.output_text.delta') text += event.delta
    }
    expect(text).toBe('hello')
    const url = `data:image/png;base64,${Buffer.alloc(5 * 1024 * 1024, 7).toString('base64')}`
    const content = [{ type: 'image_url' as const, image_url: { url } }]
    const seen = await client().chat.completions.create({ model: 'gpt-4o', messages: [{ role: 'user', content }] })
    expect(seen.choices[0]!.message.content).toBe('hello')
    expect((await client().models.list()).data.length).toBeGreaterThan(0)
  })

  it('meets the refusals of the provider unchanged, and ours in the same form', async () => {
    next = { status: 429, retryAfter: 7 }
    const limited = await client()
      .chat.completions.create({ model: 'gpt-4o', messages })
      .catch((error: unknown) => error)
    expect(limited).toBeInstanceOf(OpenAI.RateLimitError)
    expect((limited as InstanceType<typeof OpenAI.APIError>).headers?.get('retry-after')).toBe('7')
    const unknown = await client()
      .files.list()
      .then(() => undefined)
      .catch((error: unknown) => error)
    expect(unknown).toBeInstanceOf(OpenAI.NotFoundError)
    expect(unknown).toMatchObject({ code: 'ERR_ROUTE_NOT_FOUND' })
  })
})

describe('the package @anthropic-ai/sdk', () => {
  const client = () => new Anthropic({ baseURL: `${origin}/v1/anthropic`, apiKey: 'castellan', maxRetries: 0 })
  const ask = { model: 'claude-sonnet-4-5', max_tokens: 100, messages: [{ role: 'user' as const, content: 'hi' }] }

  it('answers at once and in a stream, with tools', async () => {
    const whole = await client().messages.create(ask)
    expect(whole.content).toMatchObject([{ type: 'text', text: 'hello' }])
    expect(await client().messages.stream(ask).finalText()).toBe('hello')
    next = { toolCalls: calls }
    const tools = [{ name: tool.name, input_schema: { ...tool.parameters, type: 'object' as const } }]
    const message = await client()
      .messages.stream({ ...ask, tools })
      .finalMessage()
    expect(message.content.filter(({ type }) => type === 'tool_use')).toMatchObject([
      { name: 'get_weather', input: { city: 'Rome' } },
      { name: 'get_weather', input: { city: 'Oslo' } },
    ])
  })

  it('meets refusals in the form that it knows', async () => {
    next = { status: 529 }
    const failed = await client()
      .messages.create(ask)
      .catch((error: unknown) => error)
    expect(failed).toMatchObject({ status: 529 })
    const key = new Anthropic({ baseURL: `${origin}/v1/anthropic`, apiKey: 'cst_wrong', maxRetries: 0 })
    const refused = await key.messages.create(ask).catch((error: unknown) => error)
    expect(refused).toBeInstanceOf(Anthropic.AuthenticationError)
    expect(refused).toMatchObject({ error: { type: 'error', error: { type: 'authentication_error' } } })
  })
})

describe('the package @google/genai', () => {
  const client = () => new GoogleGenAI({ apiKey: 'castellan', httpOptions: { baseUrl: `${origin}/v1/gemini` } })
  const ask = { model: 'gemini-2.5-flash', contents: 'hi' }

  it('answers at once and in a stream, with tools', async () => {
    const whole = await client().models.generateContent(ask)
    expect(whole.text).toBe('hello')
    let text = ''
    for await (const chunk of await client().models.generateContentStream(ask)) text += chunk.text ?? ''
    expect(text).toBe('hello')
    next = { toolCalls: calls }
    const config = { tools: [{ functionDeclarations: [{ name: tool.name, parametersJsonSchema: tool.parameters }] }] }
    const called = await client().models.generateContent({ ...ask, config })
    expect(called.functionCalls?.map(({ args }) => args)).toEqual([{ city: 'Rome' }, { city: 'Oslo' }])
  })

  it('meets refusals in the form that it knows', async () => {
    const wrong = new GoogleGenAI({ apiKey: 'cst_wrong', httpOptions: { baseUrl: `${origin}/v1/gemini` } })
    const refused = await wrong.models.generateContent(ask).catch((error: unknown) => error)
    expect(refused).toMatchObject({ name: 'ApiError', status: 401 })
  })
})
