import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import Anthropic from '@anthropic-ai/sdk'
import { GoogleGenAI } from '@google/genai'
import OpenAI from 'openai'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type BillingPeer, type Manner, startBillingPeer, usualBill } from '../support/billing-peer.ts'
import { newDataDir } from '../support/real-server.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'

/** The packages of the providers against a provider on this machine that writes bills: what is noted must be what it billed. */
let peer: BillingPeer
let server: ServerHere
let origin: string
let next: Manner = {}

const price = { input_cost_per_million: 1, output_cost_per_million: 10 }
beforeAll(async () => {
  peer = await startBillingPeer(() => next)
  const dataDir = newDataDir()
  const provider = (name: string, type: string, path: string) => ({
    ...{ name, type, endpoint: `${peer.url}${path}`, api_key: 'env:MODEL_KEY' },
    models: [{ alias: name, model: 'm', ...price }],
  })
  const providers = [
    provider('first', 'openai', '/v1'),
    provider('second', 'anthropic', '/v1'),
    provider('third', 'gemini', '/v1beta'),
  ]
  const config = { models: { providers }, interactions: { bodies: 'redacted' }, limits: { wait_ms: 0 } }
  writeFileSync(join(dataDir, 'castellan.yaml'), JSON.stringify(config))
  process.env['MODEL_KEY'] = 'key-of-the-operator'
  server = await startServerHere({ dataDir })
  origin = new URL(server.url).origin
  await tool('create_llm_proxy', { name: 'Research' })
  const key = { name: 'admin', role: 'admin', tier: 'operator' }
  adminKey = (await tool<{ secret: string }>('api_key_create', key)).secret
})
afterAll(async () => {
  await server.stop()
  await peer.stop()
  delete process.env['MODEL_KEY']
})
beforeEach(() => {
  next = {}
})

type Interaction = Readonly<Record<string, unknown> & { id: string; tokens: Record<string, unknown> | null }>
/** Reads nothing untrusted, and so may change limits. */
let adminKey: string
/** By the local owner, if no key is given. */
async function tool<T>(name: string, args: object, key?: string): Promise<T> {
  const response = await fetch(`${origin}/v1/tools/${name}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...(key !== undefined && { authorization: `Bearer ${key}` }) },
    body: JSON.stringify(args),
  })
  return (await response.json()) as T
}
let sessions = 0
const newSession = (): string => `s-${sessions++}`
const noted = async (session: string): Promise<readonly Interaction[]> =>
  (await tool<{ interactions: Interaction[] }>('interaction_list', { session })).interactions

const headersOf = (session: string) => ({ 'x-castellan-session-id': session })
const messages = [{ role: 'user' as const, content: 'hi' }]
const openaiOf = (session: string, maxRetries = 0) =>
  new OpenAI({
    ...{ baseURL: `${origin}/v1/first/research`, apiKey: 'castellan', maxRetries },
    defaultHeaders: headersOf(session),
  })
const anthropicOf = (session: string) =>
  new Anthropic({
    ...{ baseURL: `${origin}/v1/second/research`, apiKey: 'castellan', maxRetries: 0 },
    defaultHeaders: headersOf(session),
  })
const geminiOf = (session: string) =>
  new GoogleGenAI({
    apiKey: 'castellan',
    httpOptions: { baseUrl: `${origin}/v1/third/research`, headers: headersOf(session) },
  })

type Asked = (session: string, signal?: AbortSignal) => Promise<void>
const drained = async (stream: AsyncIterable<unknown>): Promise<void> => {
  for await (const part of stream) void part
}
const clients: Readonly<Record<string, Readonly<{ whole: Asked; stream: Asked }>>> = {
  openai: {
    whole: async (session) => {
      await openaiOf(session).chat.completions.create({ model: 'm', messages })
    },
    stream: async (session, signal) =>
      drained(await openaiOf(session).chat.completions.create({ model: 'm', messages, stream: true }, { signal })),
  },
  '@anthropic-ai/sdk': {
    whole: async (session) => {
      await anthropicOf(session).messages.create({ model: 'm', messages, max_tokens: 100 })
    },
    stream: async (session, signal) =>
      drained(
        await anthropicOf(session).messages.create({ model: 'm', messages, max_tokens: 100, stream: true }, { signal }),
      ),
  },
  '@google/genai': {
    whole: async (session) => {
      await geminiOf(session).models.generateContent({ model: 'm', contents: 'hi' })
    },
    stream: async (session, signal) =>
      drained(
        await geminiOf(session).models.generateContentStream({
          model: 'm',
          contents: 'hi',
          ...(signal && { config: { abortSignal: signal } }),
        }),
      ),
  },
}

describe.each(Object.entries(clients))('with %s', (name, { whole, stream }) => {
  const bill = name === '@anthropic-ai/sdk' ? { ...usualBill, cacheWrite: 50, reasoning: 0 } : usualBill
  const billed = {
    ...{ input: bill.input, output: bill.output, cache_read: bill.cacheRead, cache_write: bill.cacheWrite },
    ...{ reasoning: bill.reasoning, estimated: false },
  }

  it('an answer is noted with the numbers of the provider, whole and in a stream', async () => {
    const session = newSession()
    next = { bill }
    await whole(session)
    await stream(session)
    const [second, first] = await noted(session)
    for (const one of [first, second]) {
      expect(one).toMatchObject({ outcome: 'ok', tokens: billed, model: 'm-1', source: 'proxy', error_code: null })
      // 1 dollar for a million that is read, 10 for a million that is written.
      expect(one!['cost_usd']).toBe((bill.input + bill.output * 10) / 1_000_000)
      expect(one!['first_token_ms']).toEqual(expect.any(Number))
      expect(one!['proxy_id']).toEqual(expect.any(String))
    }
  })

  it('one that breaks off is billed by what passed', async () => {
    const session = newSession()
    next = { bill, manner: 'cut' }
    await expect(stream(session)).rejects.toThrow()
    const [cut] = await noted(session)
    expect(cut).toMatchObject({ outcome: 'cut_off', tokens: { estimated: true } })
    if (name === '@anthropic-ai/sdk') expect(cut!.tokens).toMatchObject({ input: bill.input })
    else expect(cut!.tokens!['input']).toBeGreaterThan(0)
    expect(cut!.tokens!['output']).toBeGreaterThan(0)
    expect(cut!['cost_usd']).toBeGreaterThan(0)
  })

  it('one that the client cancels is billed by what passed', async () => {
    const session = newSession()
    next = { bill, manner: 'hang' }
    const caller = new AbortController()
    const left = peer.left()
    const asked = stream(session, caller.signal).catch(() => {})
    await expect.poll(() => peer.seen.length).toBeGreaterThan(0)
    setTimeout(() => caller.abort(), 50)
    await left
    await asked
    await expect.poll(() => noted(session)).toMatchObject([{ outcome: 'cut_off' }])
  })

  it('a refusal of the provider costs nothing', async () => {
    const session = newSession()
    next = { manner: 400 }
    await expect(whole(session)).rejects.toThrow()
    expect(await noted(session)).toMatchObject([{ outcome: 'failed', tokens: null, cost_usd: 0 }])
  })
})

it('each try of a client that tries again is one interaction', async () => {
  const session = newSession()
  let tries = 0
  Object.defineProperty(next, 'manner', { get: () => (tries++ === 0 ? 500 : 'whole') })
  await openaiOf(session, 1).chat.completions.create({ model: 'm', messages })
  expect((await noted(session)).map(({ outcome }) => outcome)).toEqual(['ok', 'failed'])
})

it('what is reserved comes back however a request ends', async () => {
  const entity = { entity_type: 'organization', entity_id: 'local', limit_type: 'token_cost', limit_value: 1 }
  const { limit } = await tool<{ limit: { id: string } }>('create_limit', entity, adminKey)
  const session = newSession()
  for (const manner of ['whole', 'cut', 400, 'whole'] as const) {
    next = { manner }
    for (const client of Object.values(clients)) {
      await client.stream(session).catch(() => {})
      await client.whole(session).catch(() => {})
    }
  }
  const [{ used }] = (await tool<{ limits: { used: number }[] }>('get_limits', {})).limits as [{ used: number }]
  const { totals } = await tool<{ totals: { cost_usd: number; interactions: number } }>('interaction_list', {
    ...{ session, totals: true, limit: 1 },
  })
  expect(totals.interactions).toBe(24)
  expect(used).toBeCloseTo(totals.cost_usd, 9)
  const full = await tool<object>('update_limit', { id: limit.id, limit_value: used })
  expect(full).toMatchObject({ limit: { remaining: 0 } })
  const refused = newSession()
  await expect(clients['openai']!.whole(refused)).rejects.toMatchObject({ status: 402 })
  const [one] = await noted(refused)
  expect(one).toMatchObject({ outcome: 'refused', error_code: 'ERR_LIMIT_EXCEEDED', tokens: null, cost_usd: 0 })
  expect(await tool('interaction_get', { id: one!.id })).toMatchObject({
    interaction: { decisions: [{ stage: 'usage-limit', verdict: 'deny', policy: limit.id }] },
  })
  await tool('delete_limit', { id: limit.id }, adminKey)
})

const paths = { first: 'chat/completions', second: 'v1/messages', third: 'v1beta/models/m:generateContent' } as const
const posted = (provider: keyof typeof paths, body: object, session = newSession(), signal?: AbortSignal) =>
  fetch(`${origin}/v1/${provider}/research/${paths[provider]}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-api-key': 'castellan', ...headersOf(session) },
    body: JSON.stringify({ ...(provider !== 'third' && { model: 'm', messages }), ...body }),
    ...(signal && { signal }),
  })

const left = { outcome: 'cut_off', tokens: { estimated: true } }
/** Leaves once the peer has the request, and for a stream once all came that the peer will send. */
async function leave(provider: keyof typeof paths, body: object, received?: string): Promise<number> {
  const session = newSession()
  const caller = new AbortController()
  const before = peer.seen.length
  const answer = posted(provider, body, session, caller.signal)
  answer.catch(() => {})
  await expect.poll(() => peer.seen.length).toBe(before + 1)
  if (received !== undefined) {
    let text = ''
    const decoder = new TextDecoder()
    const reader = (await answer).body!.getReader()
    while (!text.includes(received)) text += decoder.decode((await reader.read()).value, { stream: true })
  }
  caller.abort()
  await expect.poll(() => noted(session)).toMatchObject([left])
  return Number((await noted(session))[0]!.tokens!['output'])
}

it('who leaves before the numbers of the provider pays for what it may bill', async () => {
  const max_tokens = 60_000
  for (const manner of ['silent', 'hang'] as const) {
    next = { manner }
    expect(await leave('first', { max_tokens })).toBe(max_tokens)
    expect(await leave('second', { max_tokens })).toBe(max_tokens)
    expect(await leave('third', { generationConfig: { maxOutputTokens: max_tokens } })).toBe(max_tokens)
  }
  const parts = [...Array.from({ length: 10 }, () => 'x y z '.repeat(800)), 'the end']
  next = { manner: 'hang', parts }
  const thinking = { type: 'enabled', budget_tokens: 30_000 }
  const ways = [
    ['second', {}],
    ['first', { model: 'gpt-4o' }],
    // What was thought is not all in what passed, but in the time it was not more.
    ['second', { thinking }],
    ['first', {}],
  ] as const
  for (const [provider, more] of ways) {
    const passed = await leave(provider, { max_tokens, stream: true, ...more }, 'the end')
    expect(passed).toBeGreaterThan(10_000)
    expect(passed).toBeLessThan(20_000)
  }
  next = { manner: 'silent' }
  expect(await leave('second', { max_tokens, stream: true })).toBe(0)
  for (const [provider, more] of ways.slice(2)) {
    const unseen = await leave(provider, { max_tokens, stream: true, ...more })
    expect(unseen).toBeGreaterThan(0)
    expect(unseen).toBeLessThan(max_tokens)
  }
  next = { manner: 'linger', parts }
  expect(await leave('second', { max_tokens, stream: true }, 'message_stop')).toBe(usualBill.output)
})

it('what is reserved is the most of what the format of the endpoint can say', async () => {
  const entity = { entity_type: 'organization', entity_id: 'local', limit_type: 'token_cost', limit_value: 0.5 }
  const { limit } = await tool<{ limit: { id: string } }>('create_limit', entity, adminKey)
  const before = peer.seen.length
  const most = { max_tokens: 60_000 }
  const refused = await Promise.all([
    posted('first', { max_completion_tokens: 1, ...most }),
    posted('first', { max_completion_tokens: 60_000, max_tokens: 1 }),
    posted('second', { max_completion_tokens: 1, max_output_tokens: 1, ...most }),
    posted('third', { max_tokens: 1, generationConfig: { maxOutputTokens: 60_000 } }),
    posted('third', { max_tokens: 1, generation_config: { max_output_tokens: 60_000 } }),
    posted('third', { generationConfig: { maxOutputTokens: '60000' } }),
    posted('third', { generationConfig: { maxOutputTokens: 1_000, candidate_count: 60 } }),
  ])
  expect(refused.map(({ status }) => status)).toEqual(refused.map(() => 402))
  expect(peer.seen).toHaveLength(before)
  // The fields of other formats say nothing here.
  expect((await posted('second', { max_tokens: 10, max_completion_tokens: 60_000 })).status).toBe(200)
  await tool('delete_limit', { id: limit.id }, adminKey)
})

it('totals of a proxy are those of its interactions', async () => {
  const { totals } = await tool<{ totals: { input_tokens: number; output_tokens: number } }>('interaction_list', {
    ...{ proxy: 'Research', totals: true },
  })
  const usage = await tool<Record<string, unknown>>('get_llm_proxy_token_usage', { id: 'Research' })
  expect(usage).toMatchObject({
    ...{ totalInputTokens: totals.input_tokens, totalOutputTokens: totals.output_tokens },
    totalTokens: totals.input_tokens + totals.output_tokens,
  })
  expect(usage['totalInputTokens']).toBeGreaterThan(0)
  expect(await tool('get_llm_proxy_token_usage', { id: 'nowhere' })).toMatchObject({ error: { code: 'ERR_NOT_FOUND' } })
  expect(await tool('get_agent_token_usage', {})).toMatchObject({ error: { code: 'ERR_INVALID_INPUT' } })
})

it('pages follow each other without gaps', async () => {
  const session = newSession()
  for (let count = 0; count < 5; count++) await clients['openai']!.whole(session)
  const all = (await noted(session)).map(({ id }) => id)
  const paged: string[] = []
  let cursor: string | null = null
  do {
    const page: { interactions: Interaction[]; next_cursor: string | null } = await tool('interaction_list', {
      ...{ session, limit: 2 },
      ...(cursor !== null && { cursor }),
    })
    paged.push(...page.interactions.map(({ id }) => id))
    cursor = page.next_cursor
  } while (cursor !== null)
  expect(paged).toEqual(all)
})

it('labels, and bodies without secrets, are in one interaction', async () => {
  const client = new OpenAI({
    ...{ baseURL: `${origin}/v1/first`, apiKey: 'castellan', maxRetries: 0 },
    defaultHeaders: {
      'x-archestra-meta': 'helper/run-7/talk-1',
      'x-castellan-user-id': 'someone',
      traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
    },
  })
  const secret = `sk-${'a1'.repeat(20)}`
  next = { text: `Your key is key-of-the-operator, or ${secret}.` }
  const asked = [{ role: 'user' as const, content: `Use ${secret} and key-of-the-operator.` }]
  await client.chat.completions.create({ model: 'm', messages: asked })
  const [one] = await noted('talk-1')
  const { interaction } = await tool<{ interaction: Record<string, unknown> }>('interaction_get', { id: one!.id })
  expect(interaction).toMatchObject({
    labels: { session: 'talk-1', agent: 'helper', run: 'run-7', user: 'someone' },
    ...{ agent_id: null, run_id: null, user_id: null, authenticated_by: 'local_owner' },
    trace_id: '0af7651916cd43dd8448eb211c80319c',
    bodies: { redacted: true, whole: true },
  })
  const bodies = JSON.stringify(interaction['bodies'])
  // The key of the operator does not even reach the caller.
  expect(bodies).toContain('Your key is [redacted], or ***.')
  expect(bodies).toContain('Use *** and ***.')
  expect(bodies).not.toContain(secret)
  expect(bodies).not.toContain('key-of-the-operator')
})

it('what another caller of the same organisation asked is not there, and its texts need more than the log', async () => {
  const keyOf = async (name: string, scopes: readonly string[]): Promise<string> =>
    (
      await tool<{ secret: string }>(
        'api_key_create',
        { name, role: 'admin', scopes: ['llmProxy:read', ...scopes] },
        adminKey,
      )
    ).secret
  const [asking, other, log, audit] = await Promise.all([
    ...[keyOf('asking', []), keyOf('other', []), keyOf('log', ['log:read'])],
    keyOf('audit', ['log:read', 'auditLog:read']),
  ])
  const session = newSession()
  const client = new OpenAI({
    ...{ baseURL: `${origin}/v1/first`, apiKey: asking, maxRetries: 0 },
    defaultHeaders: headersOf(session),
  })
  await client.chat.completions.create({ model: 'm', messages })
  const listed = (key: string) =>
    tool<{ interactions: Interaction[]; totals: object }>('interaction_list', { session, totals: true }, key)
  const [{ id }] = (await listed(asking!)).interactions as [Interaction]
  const bodiesFor = async (key: string) =>
    (await tool<{ interaction: { id: string; bodies: object | null } }>('interaction_get', { id }, key)).interaction

  const texts = { id, bodies: { request: expect.stringContaining('hi'), answer: expect.any(String) } }
  expect(await bodiesFor(asking!)).toMatchObject(texts)
  expect(await bodiesFor(audit!)).toMatchObject(texts)
  expect((await listed(log!)).interactions).toMatchObject([{ id }])
  expect(await bodiesFor(log!)).toMatchObject({ id, bodies: null })
  expect(await listed(other!)).toMatchObject({ interactions: [], totals: { interactions: 0 } })

  const withoutCall = ({ error }: { error?: Record<string, unknown> }) => ({
    code: error?.['code'],
    message: error?.['message'],
    details: error?.['details'],
  })
  const [hidden, unknown] = await Promise.all(
    [id, `${id.slice(0, -1)}~`].map((asked) =>
      tool<{ error?: Record<string, unknown> }>('interaction_get', { id: asked }, other),
    ),
  )
  expect(hidden).toMatchObject({ error: { code: 'ERR_NOT_FOUND' } })
  expect(withoutCall(hidden!)).toEqual(withoutCall(unknown!))
})
