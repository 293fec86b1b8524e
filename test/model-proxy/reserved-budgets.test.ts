import { mkdirSync, writeFileSync } from 'node:fs'
import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import OpenAI from 'openai'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { newDataDir } from '../support/real-server.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'

/** A budget that requests in progress have reserved, and hardly spend, is not used up. */
let upstream: Server
let server: ServerHere
let origin: string
const held: ServerResponse[] = []
let isHolding = true
const usage = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 }
const completion = { id: 'c', object: 'chat.completion', created: 1, model: 'm', choices: [], usage }
const answer = (res: ServerResponse) =>
  res.setHeader('content-type', 'application/json').end(JSON.stringify(completion))

beforeAll(async () => {
  upstream = createServer((req, res) => void req.resume().on('end', () => (isHolding ? held.push(res) : answer(res))))
  await new Promise<void>((resolve) => upstream.listen(0, '127.0.0.1', resolve))
  const { port } = upstream.address() as AddressInfo
  const price = { input_cost_per_million: 1, output_cost_per_million: 10, context_window: 100_000 }
  const provider = (name: string, type: string) => ({
    ...{ name, type, endpoint: `http://127.0.0.1:${port}/v1`, api_key: 'env:NO_KEY' },
    models: [{ alias: name, model: 'm', ...price }],
  })
  const providers = [
    provider('default', 'openai-compatible'),
    provider('claude', 'anthropic'),
    provider('google', 'gemini'),
  ]
  const dataDir = newDataDir()
  mkdirSync(dataDir, { recursive: true })
  writeFileSync(join(dataDir, 'castellan.yaml'), JSON.stringify({ models: { providers }, limits: { wait_ms: 0 } }))
  server = await startServerHere({ dataDir, env: { NO_KEY: 'k' } })
  origin = new URL(server.url).origin
})
afterAll(async () => {
  await server.stop()
  upstream.closeAllConnections()
  upstream.close()
})

const post = (path: string, body: object) =>
  fetch(`${origin}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
const tool = async <T>(name: string, args: object): Promise<T> =>
  (await (await post(`/v1/tools/${name}`, args)).json()) as T
const messages = [{ role: 'user' as const, content: 'Hi' }]

it('is refused for a moment, in the words of each provider, and the packages try again', async () => {
  const entity = { entity_type: 'organization', entity_id: 'local', limit_type: 'token_cost', limit_value: 1 }
  const { limit } = await tool<{ limit: { id: string } }>('create_limit', entity)
  const first = post('/v1/default/chat/completions', { model: 'm', messages })
  await expect.poll(() => held.length).toBe(1)
  const ways: readonly (readonly [path: string, body: object, error: object])[] = [
    ['/v1/default/chat/completions', { model: 'm', messages }, { type: 'rate_limit_error', code: 'ERR_RATE_LIMITED' }],
    ['/v1/claude/v1/messages', { model: 'm', messages, max_tokens: 99_000 }, { type: 'rate_limit_error' }],
    [
      '/v1/google/v1beta/models/m:generateContent',
      { contents: [{ parts: [{ text: 'Hi' }] }] },
      { status: 'RESOURCE_EXHAUSTED', details: [{ reason: 'ERR_RATE_LIMITED' }] },
    ],
  ]
  for (const [path, body, error] of ways) {
    const response = await post(path, body)
    expect([response.status, response.headers.get('retry-after')], path).toEqual([429, '1'])
    expect(response.headers.get('x-should-retry'), path).toBeNull()
    expect(response.headers.get('x-castellan-limit-id'), path).toBe(limit.id)
    expect(await response.json(), path).toMatchObject({ error })
  }
  const refused = await tool<{ interactions: object[] }>('interaction_list', { outcome: 'refused', limit: 1 })
  expect(refused.interactions).toMatchObject([{ error_code: 'ERR_RATE_LIMITED' }])
  const statuses: number[] = []
  const client = new OpenAI({
    ...{ baseURL: `${origin}/v1/default`, apiKey: 'castellan' },
    fetch: async (url, init) => {
      const response = await fetch(url, init)
      statuses.push(response.status)
      isHolding = false
      for (const res of held.splice(0)) answer(res)
      await first
      return response
    },
  })
  await client.chat.completions.create({ model: 'm', messages })
  expect(statuses).toEqual([429, 200])
  const { limits } = await tool<{ limits: { used: number }[] }>('get_limits', {})
  expect(limits[0]!.used).toBeCloseTo(2 * 0.00006, 9)
  await tool('delete_limit', { id: limit.id })
})
