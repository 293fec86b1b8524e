import { mkdirSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import OpenAI from 'openai'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { newDataDir } from '../support/real-server.ts'
import { type ScriptedModel, startScriptedModel } from '../support/scripted-model.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'

let model: ScriptedModel
let server: ServerHere
let client: OpenAI
let origin: string
/** A provider whose stream has no end. */
let endless: Server
const endlessLeft = Promise.withResolvers<void>()
/** A provider that adds a history of its own to every request, and answers with a model of its choice. */
let stateful: Server
let answersWith: string | undefined
let written = 10
/** A provider that takes a request and never answers. */
let silent: Server
let silentAsked = Promise.withResolvers<void>()

beforeAll(async () => {
  endless = createServer((_, res) => {
    const comment = `: ${'x'.repeat(64 * 1024)}\n\n`
    const write = (): void => {
      while (res.write(comment));
    }
    res.on('drain', write)
    res.on('close', () => endlessLeft.resolve())
    res.writeHead(200, { 'content-type': 'text/event-stream' })
    write()
  })
  await new Promise<void>((resolve) => endless.listen(0, '127.0.0.1', resolve))
  const endlessUrl = `http://127.0.0.1:${(endless.address() as AddressInfo).port}/v1`
  stateful = createServer((req, res) => {
    void text(req).then((body) => {
      const { model: named } = JSON.parse(body) as { model: string }
      const usage = { input_tokens: 15_000, output_tokens: 10, total_tokens: 15_010 }
      const chat = { prompt_tokens: 15_000, completion_tokens: written, total_tokens: 15_000 + written }
      const isChat = req.url!.endsWith('/chat/completions')
      const answer = isChat
        ? { id: 'c', object: 'chat.completion', model: answersWith ?? named, choices: [], usage: chat }
        : { id: 'resp_1', object: 'response', status: 'completed', model: answersWith ?? named, output: [], usage }
      res.setHeader('content-type', 'application/json').end(JSON.stringify(answer))
    })
  })
  await new Promise<void>((resolve) => stateful.listen(0, '127.0.0.1', resolve))
  const statefulUrl = `http://127.0.0.1:${(stateful.address() as AddressInfo).port}/v1`
  silent = createServer((req) => void req.resume().on('end', () => silentAsked.resolve()))
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
  const silentUrl = `http://127.0.0.1:${(silent.address() as AddressInfo).port}/v1`
  model = await startScriptedModel(() => ({ text: 'Hello.', tokens: { input: 1_000, output: 100 } }))
  const dataDir = newDataDir()
  mkdirSync(dataDir, { recursive: true })
  const price = { input_cost_per_million: 1, output_cost_per_million: 10 }
  const providers = [
    {
      name: 'paid',
      type: 'openai-compatible',
      endpoint: `${model.url}/v1`,
      models: [
        { alias: 'default', model: 'm', ...price },
        { alias: 'cheap', model: 'cheap', input_cost_per_million: 0.0001, output_cost_per_million: 0 },
      ],
    },
    {
      name: 'endless',
      type: 'openai-compatible',
      endpoint: endlessUrl,
      models: [{ alias: 'endless', model: 'm', ...price }],
    },
    {
      name: 'stateful',
      type: 'openai-compatible',
      endpoint: statefulUrl,
      models: [
        { alias: 'stateful', model: 'm', context_window: 20_000, ...price },
        { alias: 'unbounded', model: 'unbounded', ...price },
        { alias: 'free', model: 'free', input_cost_per_million: 0, output_cost_per_million: 0 },
        { alias: 'big', model: 'big', input_cost_per_million: 2, output_cost_per_million: 20 },
      ],
    },
    {
      name: 'silent',
      type: 'openai-compatible',
      endpoint: silentUrl,
      models: [{ alias: 'silent', model: 'm', context_window: 20_000, ...price }],
    },
    { name: 'known', type: 'openai', endpoint: `${model.url}/v1`, models: [{ alias: 'other', model: 'gpt-5' }] },
  ]
  writeFileSync(
    join(dataDir, 'castellan.yaml'),
    JSON.stringify({ models: { providers }, limits: { wait_ms: 0 }, model_proxy: { idle_timeout_secs: 1 } }),
  )
  server = await startServerHere({ dataDir })
  origin = new URL(server.url).origin
  client = new OpenAI({ apiKey: 'castellan', baseURL: `${origin}/v1/model-router`, maxRetries: 2 })
})
afterAll(async () => {
  await server.stop()
  await model.stop()
  for (const one of [endless, stateful, silent]) {
    one.closeAllConnections()
    one.close()
  }
})

const tool = async <T>(name: string, args: object): Promise<T> => {
  const response = await fetch(`${origin}/v1/tools/${name}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(args),
  })
  return (await response.json()) as T
}
const ask = (name: string, more: object = {}) =>
  client.chat.completions.create({ model: name, messages: [{ role: 'user', content: 'Hi' }], max_tokens: 100, ...more })
const budget = async (limit_value: number, more: object = {}) => {
  const entity = { entity_type: 'organization', entity_id: 'local', limit_type: 'token_cost' }
  const { limit } = await tool<{ limit: { id: string } }>('create_limit', { ...entity, limit_value, ...more })
  return {
    used: async () =>
      (await tool<{ limits: { id: string; used: number }[] }>('get_limits', {})).limits.find(
        ({ id }) => id === limit.id,
      )!.used,
    remove: () => tool('delete_limit', { id: limit.id }),
  }
}

it('a budget is spent by what answers cost, and then refused in a way that clients do not try again', async () => {
  const limit = await budget(0.0055)
  await ask('paid:m')
  // 1,000 tokens read at 1 dollar and 100 written at 10 dollars for a million.
  expect(await limit.used()).toBe(0.002)
  const messages = [{ role: 'user' as const, content: 'Hi' }]
  const stream = await client.chat.completions.create({ model: 'paid:m', messages, max_tokens: 100, stream: true })
  for await (const chunk of stream) expect(chunk.object).toBe('chat.completion.chunk')
  expect(await limit.used()).toBe(0.004)
  const before = model.requests.length
  await expect(ask('paid:m', { max_tokens: 200 })).rejects.toMatchObject({ status: 402, code: 'ERR_LIMIT_EXCEEDED' })
  expect(model.requests).toHaveLength(before)
  await limit.remove()
  await ask('paid:m')
})

it('requests that cost less than a millionth of a dollar are not rounded up', async () => {
  const limit = await budget(0.1)
  for (let asked = 0; asked < 20; asked++) await ask('paid:cheap')
  expect(await limit.used()).toBe(0.000002)
  const { totals } = await tool<{ totals: object }>('interaction_list', { model: 'cheap', totals: true })
  expect(totals).toMatchObject({ cost_usd: 0.000002 })
  await limit.remove()
})

it('a budget is never exceeded by callers that come together', async () => {
  const limit = await budget(0.02)
  const outcomes = await Promise.allSettled(Array.from({ length: 50 }, () => ask('paid:m', { max_tokens: 200 })))
  const served = outcomes.filter(({ status }) => status === 'fulfilled').length
  expect(served).toBeGreaterThan(0)
  expect(await limit.used()).toBe(Math.round(served * 2_000) / 1_000_000)
  expect(await limit.used()).toBeLessThanOrEqual(0.02)
  await limit.remove()
})

it('a budget is exceeded by one answer at most, by callers that come together and do not say how much they want', async () => {
  written = 15_000
  const limit = await budget(0.5)
  const outcomes = await Promise.allSettled(
    Array.from({ length: 50 }, () => ask('stateful:m', { max_tokens: undefined })),
  )
  written = 10
  const served = outcomes.filter(({ status }) => status === 'fulfilled').length
  expect(served).toBeGreaterThanOrEqual(3)
  // 15,000 tokens read at 1 dollar and 15,000 written at 10 dollars for a million; the model writes 20,000 at most.
  expect(await limit.used()).toBeCloseTo(served * 0.165, 6)
  expect(await limit.used()).toBeLessThanOrEqual(0.5 + 0.2)
  const refused = outcomes.find(({ status }) => status === 'rejected') as PromiseRejectedResult
  expect(refused.reason).toMatchObject({ status: 402, message: expect.stringContaining('Set max_tokens') })
  await limit.remove()
})

it('a refusal of the provider costs nothing, and public prices are known', async () => {
  const limit = await budget(1)
  await ask('known:gpt-5')
  const used = await limit.used()
  expect(used).toBeGreaterThan(0)
  await expect(client.embeddings.create({ model: 'claude:x', input: 'x' })).rejects.toMatchObject({ status: 400 })
  expect(await limit.used()).toBe(used)
  await limit.remove()
})

it('a client that stops reading does not hold its reservation for ever', async () => {
  const limit = await budget(1)
  const socket = connect(Number(new URL(origin).port), '127.0.0.1').pause()
  socket.on('error', () => {})
  const body = JSON.stringify({ model: 'm', messages: [], max_tokens: 10, stream: true })
  const head = 'POST /v1/endless/chat/completions HTTP/1.1\r\nhost: localhost\r\nx-castellan-session-id: stalled\r\n'
  socket.write(`${head}content-length: ${body.length}\r\n\r\n${body}`)
  await endlessLeft.promise
  const { interactions } = await tool<{ interactions: object[] }>('interaction_list', { session: 'stalled' })
  expect(interactions).toMatchObject([{ outcome: 'cut_off' }])
  expect(await limit.used()).toBeGreaterThan(0)
  socket.destroy()
  await limit.remove()
})

it('a model of unknown price is refused where cost is limited, and passes where it is not', async () => {
  await ask('known:nobody-knows')
  const limit = await budget(1)
  await expect(ask('known:nobody-knows')).rejects.toThrow('its price is not known')
  await limit.remove()
})

it('a name that is written otherwise has the same price and the same limit', async () => {
  const limit = await budget(1, { model: ['m'] })
  for (const name of ['paid:M', 'paid:vendor/m']) await ask(name)
  expect(await limit.used()).toBe(0.004)
  const before = model.requests.length
  for (const name of ['paid: m', 'paid:m ', 'paid:m\t', 'paid:m\u0000']) {
    await expect(ask(name), name).rejects.toMatchObject({ status: 400, message: expect.stringContaining('model: ') })
  }
  expect(model.requests).toHaveLength(before)
  await limit.remove()
})

const stored = (name: string, more: object = {}) => {
  const responses = new OpenAI({ apiKey: 'castellan', baseURL: `${origin}/v1/stateful` }).responses
  return responses.create({ model: name, input: 'Go on', max_output_tokens: 10, ...more })
}
const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=='
const reference: Readonly<Record<string, object>> = {
  'a stored answer': { previous_response_id: 'resp_0' },
  'a conversation': { conversation: 'conv_1' },
  'a template': { prompt: { id: 'pmpt_1' } },
  'an item': { input: [{ type: 'item_reference', id: 'msg_1' }] },
  'stored reasoning': { input: [{ type: 'reasoning', id: 'rs_1', summary: [] }] },
  'a stored file': { input: [{ role: 'user', content: [{ type: 'input_file', file_id: 'file_1' }] }] },
  'a document': {
    input: [
      {
        role: 'user',
        content: [{ type: 'input_file', filename: 'a.pdf', file_data: 'data:application/pdf;base64,AAAA' }],
      },
    ],
  },
  'an image at an address': {
    input: [
      { role: 'user', content: [{ type: 'input_image', detail: 'auto', image_url: 'https://example.org/a.png' }] },
    ],
  },
  'a tool of the provider': { tools: [{ type: 'web_search' }] },
}

it.each(Object.entries(reference))('input that is not in the request is reserved: %s', async (_, more) => {
  const limit = await budget(0.05)
  const outcomes = await Promise.allSettled(Array.from({ length: 50 }, () => stored('m', more)))
  const served = outcomes.filter(({ status }) => status === 'fulfilled').length
  expect(served).toBeGreaterThan(0)
  expect(await limit.used()).toBe(Math.round(served * 15_100) / 1_000_000)
  expect(await limit.used()).toBeLessThanOrEqual(0.05)
  await expect(stored('unbounded', more)).rejects.toThrow('context_window')
  await stored('free', more)
  await limit.remove()
  await stored('unbounded', more)
})

it('an image is reserved as an image, whatever its size', async () => {
  const limit = await budget(0.03)
  const url = `data:image/png;base64,${PIXEL.repeat(5_000)}`
  const content = [{ type: 'image_url' as const, image_url: { url } }]
  await ask('stateful:m', { messages: [{ role: 'user', content }] })
  expect(await limit.used()).toBe(0.0151)
  await limit.remove()
})

it('the model that answers counts, and from then on is known in advance', async () => {
  const limit = await budget(0.05, { model: ['big'] })
  answersWith = 'big'
  await ask('stateful:m')
  answersWith = undefined
  // At the price of the model that answered.
  expect(await limit.used()).toBe(0.0302)
  const messages = [{ role: 'user' as const, content: '12345678'.repeat(1_500) }]
  await expect(ask('stateful:m', { messages })).rejects.toMatchObject({ status: 402 })
  const totals = { model: 'big', totals: true }
  expect(await tool('interaction_list', totals)).toMatchObject({ totals: { interactions: 1, cost_usd: 0.0302 } })
  await limit.remove()
})

it('a client that leaves before the tokens are reported pays for input that was not in its request', async () => {
  const limit = await budget(1)
  const gone = new AbortController()
  const responses = new OpenAI({ apiKey: 'castellan', baseURL: `${origin}/v1/silent` }).responses
  silentAsked = Promise.withResolvers<void>()
  const asked = responses.create(
    { model: 'm', input: 'Go on', previous_response_id: 'resp_0', max_output_tokens: 10, stream: true },
    { signal: gone.signal, maxRetries: 0 },
  )
  const left = expect(asked).rejects.toThrow('aborted')
  await silentAsked.promise
  gone.abort()
  await left
  await expect.poll(() => limit.used()).toBeGreaterThanOrEqual(0.02)
  await limit.remove()
})
