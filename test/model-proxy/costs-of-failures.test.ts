import { mkdirSync, writeFileSync } from 'node:fs'
import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import OpenAI from 'openai'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createModelAccounting } from '../../src/app/wiring/model-accounting.ts'
import { localOwner } from '../../src/contract/principal.ts'
import { systemClock } from '../../src/kernel/clock.ts'
import { callProvider } from '../../src/models/call-provider.ts'
import { createModels } from '../../src/models/create-models.ts'
import { noOptimization, noStoredKeys } from '../support/model-accounting.ts'
import { newDataDir } from '../support/real-server.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'

/** What a request costs that fails after it was sent: a provider may bill it, so it is never free. */
let upstream: Server
let server: ServerHere
let origin: string
let closedPort: number
let answer: RequestListener
let client: OpenAI

const completion = {
  ...{ id: 'c', object: 'chat.completion', model: 'm' },
  choices: [{ index: 0, message: { role: 'assistant', content: 'Hello.' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 1_000, completion_tokens: 100, total_tokens: 1_100 },
}
const inFull: RequestListener = (_, res) => {
  res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(completion))
}

beforeAll(async () => {
  upstream = createServer((req, res) => {
    res.on('error', () => {})
    req.on('error', () => {})
    req.resume().on('end', () => answer(req, res))
  })
  await new Promise<void>((resolve) => upstream.listen(0, '127.0.0.1', resolve))
  const { port } = upstream.address() as AddressInfo
  // Nobody listens there once it is closed.
  const nobody = createServer()
  await new Promise<void>((resolve) => nobody.listen(0, '127.0.0.1', resolve))
  closedPort = (nobody.address() as AddressInfo).port
  await new Promise((resolve) => nobody.close(resolve))
  const price = { input_cost_per_million: 1, output_cost_per_million: 10 }
  const provider = (name: string, at: number) => ({
    ...{ name, type: 'openai-compatible', endpoint: `http://127.0.0.1:${at}/v1` },
    models: ['m', 'o3'].map((model) => ({ ...price, alias: `${name}-${model}`, model })),
  })
  const dataDir = newDataDir()
  mkdirSync(dataDir, { recursive: true })
  writeFileSync(
    join(dataDir, 'castellan.yaml'),
    JSON.stringify({
      models: { providers: [provider('default', port), provider('absent', closedPort)] },
      limits: { wait_ms: 0 },
      model_proxy: { answer_timeout_secs: 1, idle_timeout_secs: 1 },
    }),
  )
  server = await startServerHere({ dataDir })
  origin = new URL(server.url).origin
  client = new OpenAI({ apiKey: 'castellan', baseURL: `${origin}/v1/default`, maxRetries: 0 })
})
afterAll(async () => {
  await server.stop()
  upstream.closeAllConnections()
  upstream.close()
})

const tool = async <T>(name: string, args: object): Promise<T> => {
  const response = await fetch(`${origin}/v1/tools/${name}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(args),
  })
  return (await response.json()) as T
}
const ask = (more: object = {}, path = 'default') =>
  client.withOptions({ baseURL: `${origin}/v1/${path}` }).chat.completions.create({
    ...{ model: 'm', messages: [{ role: 'user' as const, content: 'Hi' }], max_tokens: 1_000 },
    ...more,
  })
/** What a use adds to a limit, in dollars. */
async function costOf(use: () => Promise<unknown>): Promise<number> {
  const entity = { entity_type: 'organization', entity_id: 'local', limit_type: 'token_cost', limit_value: 2 }
  const { limit } = await tool<{ limit: { id: string } }>('create_limit', entity)
  await use()
  const { limits } = await tool<{ limits: { id: string; used: number }[] }>('get_limits', {})
  await tool('delete_limit', { id: limit.id })
  return limits.find(({ id }) => id === limit.id)!.used
}
/** 1,000 tokens at 10 dollars for a million, and the few of the question. */
const RESERVED = 0.01

it('the name of a removed tool may have any character, and the answer is paid', async () => {
  answer = inFull
  await tool('create_tool_invocation_policy', {
    ...{ toolId: 'client:web_search', conditions: [], action: 'block_always', reason: 'no search' },
  })
  let removed: string | null = null
  const cost = await costOf(async () => {
    const { response } = await ask({ tools: [{ type: 'web_search\n' }, { type: 'Web_Search' }] }).withResponse()
    removed = response.headers.get('x-castellan-removed-tools')
  })
  expect(removed).toBe('web_search%0A, Web_Search')
  expect(cost).toBe(0.002)
})

/** What a request of an agent costs that fails, in dollars. */
async function costOfAgent(isStreamed: boolean, to?: number, maxOutputTokens = 1_000): Promise<number> {
  let cost = 0
  const settle = (nanodollars: number): void => {
    cost += nanodollars / 1_000_000_000
  }
  const accounting = createModelAccounting({
    limits: { reserveCost: () => ({ settle }), countCall() {} },
    interactions: { add() {}, keepsBodies: false, space: () => undefined },
    clock: systemClock,
    defaultOutputTokens: 4_096,
  })
  const { port } = upstream.address() as AddressInfo
  const settings = { maxOutputTokens, temperature: null, inputCost: 1, outputCost: 10 }
  const endpoint = `http://127.0.0.1:${to ?? port}/v1`
  const provider = { name: 'p', type: 'openai-compatible', endpoint, apiKey: 'k', isStreamed } as const
  const models = createModels({
    settings: {
      ...{ providers: [{ ...provider, models: [{ ...settings, alias: 'a', model: 'm' }] }] },
      ...{ defaultProvider: null, fallbackProvider: null, retriesMax: 0, retryDelayMs: 1, overallTimeoutMs: 60_000 },
    },
    ...{ ask: callProvider, accounting: async () => accounting, storedKeys: noStoredKeys },
    ...{ optimization: noOptimization, routing: async () => [], clock: systemClock },
  })
  const request = {
    ...({ alias: 'a', principal: localOwner, purpose: 'agent', system: null, tools: [], temperature: null } as const),
    ...{ messages: [{ role: 'user', text: 'Hi' }] as const, maxOutputTokens: null, timeoutMs: 1_000 },
    signal: new AbortController().signal,
  }
  await expect(models.generate(request)).rejects.toMatchObject({ code: expect.stringMatching(/^ERR_MODEL_/) })
  return cost
}

it.each<[string, RequestListener, object, number]>([
  ['no answer in time', () => {}, {}, 504],
  [
    'an answer that stalls',
    (_, res) => void res.writeHead(200, { 'content-type': 'application/json' }).write('{"id":'),
    {},
    504,
  ],
])('%s costs what was reserved, of a program and of an agent', async (_, how, more, status) => {
  answer = how
  const cost = await costOf(() => expect(ask(more)).rejects.toMatchObject({ status }))
  for (const one of [cost, await costOfAgent(false)]) {
    expect(one).toBeGreaterThan(RESERVED)
    expect(one).toBeLessThan(RESERVED * 1.1)
  }
})

const breaksOff: RequestListener = (_, res) =>
  void res.writeHead(200, { 'content-type': 'application/json' }).write('{"id":', () => res.socket!.destroy())
const breaks: RequestListener = (_, res) => void res.socket!.destroy()

it.each([
  ['an answer that breaks off', breaksOff],
  ['a connection that breaks', breaks],
])('%s costs what can have been written in the time, of a program and of an agent', async (_, how) => {
  answer = how
  const cost = await costOf(() => expect(ask({ max_tokens: 90_000 })).rejects.toMatchObject({ status: 503 }))
  for (const one of [cost, await costOfAgent(false, undefined, 90_000)]) {
    expect(one).toBeGreaterThan(0)
    expect(one).toBeLessThan(0.3)
  }
})

it.each<[string, RequestListener, number]>([
  ['does not begin in time', () => {}, 504],
  ['breaks before it begins', breaks, 503],
])('a stream that %s costs its input, of a program and of an agent', async (_, how, status) => {
  answer = how
  const cost = await costOf(() => expect(ask({ stream: true })).rejects.toMatchObject({ status }))
  for (const one of [cost, await costOfAgent(true)]) {
    expect(one).toBeGreaterThan(0)
    expect(one).toBeLessThan(0.001)
  }
})

it('a stream of a model that hides its reasoning costs what it can have written until it was left', async () => {
  const event = `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: 'word ' } }] })}\n\n`
  let left = false
  answer = (_, res) => {
    res.on('close', () => {
      left = true
    })
    res.writeHead(200, { 'content-type': 'text/event-stream' }).write(event.repeat(3))
  }
  const cost = await costOf(async () => {
    const stream = (await ask({ model: 'o3', stream: true, max_tokens: 90_000 })) as unknown as {
      controller: AbortController
    } & AsyncIterable<object>
    let events = 0
    for await (const _ of stream) if (++events === 3) stream.controller.abort()
    await expect.poll(() => left).toBe(true)
  })
  expect(cost).toBeGreaterThan(0)
  expect(cost).toBeLessThan(0.3)
})

it('a stream that stalls costs at least what came', async () => {
  const text = 'word '.repeat(300)
  const event = `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: text } }] })}\n\n`
  answer = (_, res) => void res.writeHead(200, { 'content-type': 'text/event-stream' }).write(event)
  const cost = await costOf(async () => {
    const stream = await ask({ stream: true })
    await expect(
      (async () => {
        for await (const _ of stream as unknown as AsyncIterable<object>);
      })(),
    ).rejects.toThrow()
  })
  expect(cost).toBeGreaterThan(0.003)
})

it.each<[string, RequestListener, string, number]>([
  ['a refusal', (_, res) => void res.writeHead(500).end('{}'), 'default', 500],
  ['a redirect', (_, res) => void res.writeHead(307, { location: '/elsewhere' }).end(), 'default', 503],
  [
    'a refusal that breaks off',
    (_, res) => void res.writeHead(429, { 'content-length': '9' }).write('{', () => res.socket!.destroy()),
    'default',
    429,
  ],
  ['a provider that nobody reaches', inFull, 'absent', 503],
])('%s costs nothing', async (_, how, path, status) => {
  answer = how
  const cost = await costOf(async () => {
    const failure = await ask({}, path).then(
      () => undefined,
      (error: unknown) => error,
    )
    if (status === 429) expect(failure).toBeInstanceOf(OpenAI.APIError)
    else expect(failure).toMatchObject({ status })
  })
  expect(cost).toBe(0)
  expect(await costOfAgent(false, path === 'absent' ? closedPort : undefined)).toBe(0)
})

it('a provider cannot lead an agent, with its key and its words, to another address', async () => {
  const asked: string[] = []
  answer = (req, res) => {
    asked.push(req.url!)
    res.writeHead(307, { location: '/elsewhere' }).end()
  }
  await costOfAgent(false)
  expect(asked).toEqual(['/v1/chat/completions'])
})
