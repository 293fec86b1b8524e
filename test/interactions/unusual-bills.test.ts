import { writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { answering } from '../support/answering.ts'
import { newDataDir } from '../support/real-server.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'

/** Providers whose bill is missing, not yet known, or no number. None of that is free. */
let upstream: Server
let server: ServerHere
let answer: Readonly<{ type: string; text: string; isOpen?: true }>

const types = { first: 'openai', second: 'anthropic', third: 'gemini' } as const
beforeAll(async () => {
  upstream = createServer(
    answering(async (req, res) => {
      await text(req)
      res.writeHead(200, { 'content-type': answer.type }).write(answer.text)
      if (answer.isOpen !== true) res.end()
    }),
  )
  await new Promise<void>((resolve) => upstream.listen(0, '127.0.0.1', resolve))
  const endpoint = `http://127.0.0.1:${(upstream.address() as AddressInfo).port}/v1`
  const models = ['m', 'gpt-4o'].map((model) => ({
    ...{ alias: model, model, input_cost_per_million: 1, output_cost_per_million: 10 },
  }))
  const providers = Object.entries(types).map(([name, type]) => ({
    ...{ name, type, endpoint },
    models: models.map((model) => ({ ...model, alias: `${name}-${model.alias}` })),
  }))
  const dataDir = newDataDir()
  writeFileSync(join(dataDir, 'castellan.yaml'), JSON.stringify({ models: { providers }, limits: { wait_ms: 0 } }))
  server = await startServerHere({ dataDir })
})
afterAll(async () => {
  await server.stop()
  upstream.close()
  upstream.closeAllConnections()
})

let sessions = 0
const post = (path: string, body: object, session: string, signal?: AbortSignal) =>
  fetch(new URL(path, server.url), {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-castellan-session-id': session },
    body: JSON.stringify(body),
    ...(signal && { signal }),
  })
type Noted = Readonly<{ tokens: Record<string, unknown>; cost_usd: number; outcome: string }>
const noted = async (session: string): Promise<readonly Noted[]> => {
  const response = await post('/v1/tools/interaction_list', { session }, '')
  return ((await response.json()) as { interactions: Noted[] }).interactions
}
/** What is noted of one request. */
async function asked(path: string, body: object): Promise<Noted> {
  const session = `s-${sessions++}`
  const response = await post(`/v1/${path}`, body, session)
  expect(response.status).toBe(200)
  await response.text()
  const [one] = await noted(session)
  return one!
}

const json = (value: object) => ({ type: 'application/json', text: JSON.stringify(value) })
const stream = (...events: readonly object[]) => ({
  type: 'text/event-stream',
  text: events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join(''),
})
const WORDS = 'Forty words of an answer. '.repeat(30)
const messages = [{ role: 'user', content: 'hi' }]
const chat = { model: 'm', messages, max_tokens: 500 }
const start = (input: unknown) => ({
  type: 'message_start',
  message: { usage: { input_tokens: input, output_tokens: 1 } },
})
const delta = { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: WORDS } }
const candidates = [{ content: { role: 'model', parts: [{ text: WORDS }] } }]
const prompted = { contents: [{ parts: [{ text: 'hi' }] }], generationConfig: { maxOutputTokens: 500 } }
const GENERATE = 'third/v1beta/models/m:generateContent'
const STREAM = 'third/v1beta/models/m:streamGenerateContent?alt=sse'

const bills = (input: unknown, output: unknown) => {
  const usage = { prompt_tokens: input, completion_tokens: output }
  const messageUsage = { input_tokens: input, output_tokens: output }
  const usageMetadata = { promptTokenCount: input, candidatesTokenCount: output }
  return [
    ['a chat', 'first/chat/completions', chat, json({ usage, choices: [{ message: { content: WORDS } }] })],
    [
      'a streamed chat',
      'first/chat/completions',
      { ...chat, stream: true },
      stream({ choices: [{ index: 0, delta: { content: WORDS } }] }, { choices: [], usage }),
    ],
    [
      'a response',
      'first/responses',
      { model: 'm', input: 'hi' },
      json({ status: 'completed', usage: messageUsage, output: WORDS }),
    ],
    ['a message', 'second/v1/messages', chat, json({ usage: messageUsage, content: [{ type: 'text', text: WORDS }] })],
    [
      'a streamed message',
      'second/v1/messages',
      { ...chat, stream: true },
      stream(start(input), delta, { type: 'message_delta', delta: {}, usage: { output_tokens: output } }),
    ],
    ['a content', GENERATE, prompted, json({ usageMetadata, candidates })],
    ['a streamed content', STREAM, prompted, stream({ candidates }, { usageMetadata, candidates: [] })],
    [
      'a routed message',
      'model-router/chat/completions',
      { ...chat, model: 'second:m' },
      json({ usage: messageUsage, content: [{ type: 'text', text: WORDS }] }),
    ],
    [
      'a routed content',
      'model-router/chat/completions',
      { ...chat, model: 'third:m' },
      json({ usageMetadata, candidates }),
    ],
  ] as const
}

it.each([
  ...bills(-5, -90),
  ...bills('5', '90'),
  ...bills(null, null),
  ...bills(1e300, 1e300),
  ...bills({}, []),
  ...bills(5, -90),
])('what %s cost is estimated where the provider does not say it in numbers', async (_, path, body, said) => {
  answer = said
  const { tokens, cost_usd } = await asked(path, body)
  expect(tokens['estimated']).toBe(true)
  expect(tokens['input']).toBeGreaterThan(0)
  expect(tokens['output']).toBeGreaterThan(100)
  expect(tokens['output']).toBeLessThan(10_000)
  expect(cost_usd).toBeGreaterThan(0.001)
})

it.each(bills(50, 90))('what %s cost is what the provider says', async (_, path, body, said) => {
  answer = said
  expect((await asked(path, body)).tokens).toMatchObject({ input: 50, output: 90, estimated: false })
})

it('an embedding has no output, and content without candidates has none either', async () => {
  answer = json({ data: [{ embedding: [1, 2, 3] }], usage: { prompt_tokens: 7, total_tokens: 7 } })
  const embedded = await asked('first/embeddings', { model: 'm', input: 'hi' })
  expect(embedded.tokens).toMatchObject({ input: 7, output: 0, estimated: false })
  answer = json({
    promptFeedback: { blockReason: 'SAFETY' },
    usageMetadata: { promptTokenCount: 7, totalTokenCount: 7 },
  })
  expect((await asked(GENERATE, prompted)).tokens).toMatchObject({ input: 7, output: 0, estimated: false })
})

const background = { model: 'gpt-4o', background: true, max_output_tokens: 90_000, input: 'x' }
it.each([
  ['first/responses', background, { status: 'queued', usage: null }],
  ['first/responses', background, { status: 'queued', usage: { input_tokens: 1, output_tokens: 0 } }],
  ['first/responses', { ...background, background: false }, { status: 'in_progress', usage: null }],
  ['model-router/responses', { ...background, model: 'first:gpt-4o' }, { status: 'queued', usage: null }],
] as const)(
  'an answer that the provider is still to write costs all that it may: %s, %o, %o',
  async (path, body, said) => {
    answer = json({ id: 'resp_1', object: 'response', model: 'gpt-4o', ...said, output: [] })
    expect(await asked(path, body)).toMatchObject({ tokens: { output: 90_000, estimated: true } })
  },
)

it('who leaves the stream of an answer in the background pays all that it may cost', async () => {
  answer = {
    ...stream({ type: 'response.created', response: { id: 'r', status: 'queued', usage: null } }),
    isOpen: true,
  }
  const session = `s-${sessions++}`
  const caller = new AbortController()
  const response = await post('/v1/first/responses', { ...background, stream: true }, session, caller.signal)
  await response.body!.getReader().read()
  caller.abort()
  await expect
    .poll(() => noted(session), { timeout: 10_000 })
    .toMatchObject([{ outcome: 'cut_off', tokens: { output: 90_000 } }])
  answer = stream({
    type: 'response.completed',
    response: { status: 'completed', usage: { input_tokens: 5, output_tokens: 9 } },
  })
  expect((await asked('first/responses', { ...background, stream: true })).tokens).toMatchObject({
    output: 9,
    estimated: false,
  })
})
