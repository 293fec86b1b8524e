import { mkdirSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { newDataDir } from '../support/real-server.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'

/** A budget holds although the provider never says how many tokens a request took. */
let upstream: Server
let server: ServerHere
let origin: string
const LIMIT = 0.003
const WORDS = 'So many more words than the request allows. '.repeat(20)
const vector = Array.from({ length: 3_072 }, (_, index) => index / 3_072)

function answerTo(path: string, body: { stream?: boolean }): readonly [type: string, answer: string] {
  const json = 'application/json'
  if (path.endsWith(':embedContent')) return [json, JSON.stringify({ embedding: { values: vector } })]
  if (path.endsWith('/embeddings')) {
    return [json, JSON.stringify({ object: 'list', model: 'm', data: [{ index: 0, embedding: vector }] })]
  }
  const choice = { index: 0, finish_reason: 'stop' }
  const completion = { id: 'c', object: 'chat.completion', created: 1_767_225_600, model: 'm' }
  if (body.stream !== true) {
    const choices = [{ ...choice, message: { role: 'assistant', content: WORDS } }]
    return [json, JSON.stringify({ ...completion, choices })]
  }
  const chunk = { ...completion, object: 'chat.completion.chunk', choices: [{ ...choice, delta: { content: WORDS } }] }
  return ['text/event-stream', `data: ${JSON.stringify(chunk)}\n\ndata: [DONE]\n\n`]
}

beforeAll(async () => {
  upstream = createServer((req, res) => {
    void text(req).then((body) => {
      const [type, answer] = answerTo(req.url!, JSON.parse(body) as { stream?: boolean })
      res.setHeader('content-type', type).end(answer)
    })
  })
  await new Promise<void>((resolve) => upstream.listen(0, '127.0.0.1', resolve))
  const endpoint = `http://127.0.0.1:${(upstream.address() as AddressInfo).port}/v1`
  const price = { input_cost_per_million: 1, output_cost_per_million: 10 }
  const provider = (name: string, type: string) => ({
    ...{ name, type, endpoint, api_key: 'env:NO_KEY' },
    models: [{ alias: name, model: 'm', ...price }],
  })
  const providers = [provider('paid', 'openai-compatible'), provider('google', 'gemini')]
  const dataDir = newDataDir()
  mkdirSync(dataDir, { recursive: true })
  writeFileSync(join(dataDir, 'castellan.yaml'), JSON.stringify({ models: { providers }, limits: { wait_ms: 60_000 } }))
  server = await startServerHere({ dataDir, env: { NO_KEY: 'k' } })
  origin = new URL(server.url).origin
})
afterAll(async () => {
  await server.stop()
  upstream.closeAllConnections()
  upstream.close()
})

const send = (path: string, body: object): Promise<Response> =>
  fetch(`${origin}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
const tool = async <T>(name: string, args: object): Promise<T> =>
  (await (await send(`/v1/tools/${name}`, args)).json()) as T

const chat = (more: object) => ({
  path: '/v1/paid/chat/completions',
  body: { model: 'm', messages: [{ role: 'user', content: 'Hi' }], max_tokens: 2, ...more },
})
const kinds: Readonly<Record<string, { path: string; body: object }>> = {
  'an answer': chat({}),
  'a stream': chat({ stream: true }),
  'several answers': chat({ n: 3 }),
  'an embedding': { path: '/v1/paid/embeddings', body: { model: 'm', input: 'x'.repeat(400) } },
  'an embedding of Gemini': {
    path: '/v1/google/v1beta/models/m:embedContent',
    body: { content: { parts: [{ text: 'x'.repeat(400) }] } },
  },
}

it.each(Object.entries(kinds))('%s costs no more than was reserved, whatever 50 callers get', async (_, request) => {
  const entity = { entity_type: 'organization', entity_id: 'local', limit_type: 'token_cost' }
  const { limit } = await tool<{ limit: { id: string } }>('create_limit', { ...entity, limit_value: LIMIT })
  const statuses = await Promise.all(
    Array.from({ length: 50 }, async () => {
      const response = await send(request.path, request.body)
      await response.text()
      return response.status
    }),
  )
  const { limits } = await tool<{ limits: { id: string; used: number }[] }>('get_limits', {})
  await tool('delete_limit', { id: limit.id })
  expect(statuses).toContain(200)
  expect(new Set(statuses)).toEqual(new Set(statuses.includes(402) ? [200, 402] : [200]))
  expect(limits.find(({ id }) => id === limit.id)!.used).toBeLessThanOrEqual(LIMIT)
})

it('an embedding has no output, whatever the provider answers', async () => {
  for (const kind of ['an embedding', 'an embedding of Gemini']) {
    const { path, body } = kinds[kind]!
    await (await send(path, body)).text()
    const { interactions } = await tool<{ interactions: object[] }>('interaction_list', { limit: 1 })
    expect(interactions, kind).toMatchObject([{ tokens: { output: 0 } }])
  }
})
