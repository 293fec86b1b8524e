import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import OpenAI from 'openai'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type ModelRule, minuteOfDayIn, modelsFor } from '../../src/model-proxy/rules/model-rules.ts'
import { runCastellanHere } from '../support/castellan-here.ts'
import { answerChat, answerWith, type ModelPeer, startModelPeer } from '../support/model-peer.ts'
import { newDataDir } from '../support/real-server.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'

type Peer = Awaited<ReturnType<typeof startModelPeer>>
let first: Peer
let second: Peer
let server: ServerHere
let origin: string

const price = (output: number) => ({ input_cost_per_million: 0, output_cost_per_million: output })
const providersOf = (one: string, other: string) => [
  {
    ...{ name: 'first', type: 'openai-compatible', endpoint: one },
    models: [
      { alias: 'default', model: 'large', ...price(100) },
      { alias: 'small', model: 'small', ...price(1) },
    ],
  },
  { name: 'second', type: 'openai-compatible', endpoint: other, models: [{ alias: 's', model: 'm', ...price(10) }] },
]
const rules = [
  {
    name: 'short',
    when: { provider: 'first', models: ['large'], max_tokens: 100, has_tools: false },
    use: 'first:small',
  },
  { name: 'by-header', when: { headers: { 'X-Team': 'research' } }, use: 'second:m' },
  { name: 'failing', when: { models: ['large', 'huge*'] }, fall_back: ['first:small', 'second:m'] },
]

beforeAll(async () => {
  first = await startModelPeer()
  second = await startModelPeer()
  const dataDir = newDataDir()
  mkdirSync(dataDir, { recursive: true })
  const providers = providersOf(first.url, second.url)
  const config = { models: { providers }, model_proxy: { rules }, limits: { wait_ms: 0 } }
  writeFileSync(join(dataDir, 'castellan.yaml'), JSON.stringify(config))
  server = { ...(await startServerHere({ dataDir })), dataDir }
  origin = new URL(server.url).origin
})
afterAll(async () => {
  await server.stop()
  first.close()
  second.close()
})
beforeEach(() => {
  for (const peer of [first, second]) {
    peer.answer = answerChat
    peer.requests.length = 0
  }
})

const asked = ({ requests }: ModelPeer) => requests.map(({ body }) => body['model'])
const long = 'word '.repeat(200)
const ask = (more: object = {}, { apiKey = 'castellan', path = 'first', headers = {} } = {}) =>
  new OpenAI({ apiKey, baseURL: `${origin}/v1/${path}`, maxRetries: 0, defaultHeaders: headers }).chat.completions
    .create({ model: 'large', messages: [{ role: 'user', content: long }], max_tokens: 100, ...more, stream: false })
    .withResponse()
const short = { messages: [{ role: 'user', content: 'Hi' }] }
const tools = [{ type: 'function', function: { name: 'f', parameters: { type: 'object', properties: {} } } }]

async function tool<T>(name: string, args: object): Promise<T> {
  const body = JSON.stringify(args)
  const headers = { 'content-type': 'application/json' }
  return (await (await fetch(`${origin}/v1/tools/${name}`, { method: 'POST', headers, body })).json()) as T
}

describe('a rule for models', () => {
  it('has a cheaper model asked for what is short and without tools, and says so', async () => {
    const { data, response } = await ask(short)
    expect(data.model).toBe('small')
    expect(response.headers.get('x-castellan-model')).toBe('first:small')
    expect(response.headers.get('x-castellan-model-rule')).toBe('short')
    await ask({ ...short, tools })
    const { response: plain } = await ask()
    expect(plain.headers.get('x-castellan-model')).toBeNull()
    expect(asked(first)).toEqual(['small', 'large', 'large'])
  })

  it('chooses another provider by a header, also at the address over all of them', async () => {
    const headers = { 'x-team': 'research' }
    await ask({}, { headers })
    await ask({ model: 'first:large' }, { headers, path: 'model-router' })
    expect([asked(first), asked(second)]).toEqual([[], ['m', 'm']])
  })

  it('prices and limits the model that is really asked', async () => {
    const limit = { entity_type: 'organization', entity_id: 'local', limit_type: 'token_cost', limit_value: 0.001 }
    const made = await tool<{ limit: { id: string } }>('create_limit', limit)
    await ask(short)
    const { limits } = await tool<{ limits: { id: string; used: number }[] }>('get_limits', {})
    expect(limits.find(({ id }) => id === made.limit.id)!.used).toBe(0.00001)
    await expect(ask()).rejects.toMatchObject({ status: 402 })
    await tool('delete_limit', { id: made.limit.id })
  })

  it.each([429, 500, 503, 529])('falls back when a provider answers %i, in turn', async (status) => {
    first.answer = answerWith(status)
    const { data, response } = await ask()
    expect(data.choices[0]!.message.content).toBe('Hello.')
    expect(response.headers.get('x-castellan-model')).toBe('second:m')
    expect([asked(first), asked(second)]).toEqual([['large', 'small'], ['m']])
  })

  it('falls back when the line breaks before the answer, for a stream too', async () => {
    first.answer = ({ response }) => response.destroy()
    const client = new OpenAI({ apiKey: 'castellan', baseURL: `${origin}/v1/first`, maxRetries: 0 })
    const messages = [{ role: 'user' as const, content: long }]
    let text = ''
    for await (const chunk of await client.chat.completions.create({ model: 'large', messages, stream: true })) {
      text += chunk.choices[0]?.delta.content ?? ''
    }
    expect(text).toBe('Hello.')
    expect(asked(second)).toEqual(['m'])
  })

  it('passes on what the last one answers, and what no other model would mend', async () => {
    first.answer = answerWith(400)
    await expect(ask()).rejects.toMatchObject({ status: 400 })
    expect(asked(second)).toEqual([])
    first.answer = answerWith(503)
    second.answer = answerWith(429)
    await expect(ask()).rejects.toMatchObject({ status: 429 })
  })

  it('leaves out what the key of the caller is not for', async () => {
    first.answer = answerWith(503)
    const narrow = await tool<{ secret: string }>('virtual_key_create', { name: 'narrow', models: ['large'] })
    await expect(ask({}, { apiKey: narrow.secret })).rejects.toMatchObject({ status: 503 })
    await expect(ask({}, { apiKey: 'a-key-of-the-callers-own' })).rejects.toMatchObject({ status: 503 })
    expect(asked(second)).toEqual([])
    expect(first.requests.map(({ headers }) => headers.authorization)).toEqual([
      undefined,
      ...['large', 'small'].map(() => 'Bearer a-key-of-the-callers-own'),
    ])
  })

  it('is in the log with the model that was asked for', async () => {
    await ask(short)
    await expect
      .poll(() => {
        using db = new DatabaseSync(join(server.dataDir, 'castellan.db'), { readOnly: true })
        const rows = db.prepare('SELECT record FROM log_entries').all()
        return rows.some(({ record }) => /"model":"large"[^}]*"rule":"short"/.test(String(record)))
      })
      .toBe(true)
  })
})

it.each([
  [{ name: 'a', use: 'nobody:m' }, 'model_proxy.rules.0.use'],
  [{ name: 'a', use: 'first:nothing' }, 'model_proxy.rules.0.use'],
  [{ name: 'a', fall_back: ['second:large'] }, 'model_proxy.rules.0.fall_back'],
  [{ name: 'a', when: { provider: 'nobody' }, use: 'second:m' }, 'model_proxy.rules.0.when.provider'],
  [{ name: 'a', when: { between: '25:00-01:00' }, use: 'second:m' }, 'model_proxy.rules'],
  [{ name: 'a' }, 'model_proxy.rules'],
])('a rule that cannot hold is refused by name: %j', async (rule, field) => {
  const dataDir = newDataDir()
  mkdirSync(dataDir, { recursive: true })
  const config = { models: { providers: providersOf('http://127.0.0.1:1', 'http://127.0.0.1:2') } }
  writeFileSync(join(dataDir, 'castellan.yaml'), JSON.stringify({ ...config, model_proxy: { rules: [rule] } }))
  const run = await runCastellanHere(['config', 'validate', '--data-dir', dataDir], { home: dataDir })
  expect(run.code).not.toBe(0)
  expect(run.stderr).toContain(field)
})

it('a rule holds at its hours, over midnight too', () => {
  const rule: ModelRule = {
    ...{ name: 'night', when: { between: [22 * 60, 6 * 60] }, fallBack: [] },
    use: { provider: 'p', model: 'm' },
  }
  const request = { bytes: undefined, model: 'x', isStream: false, hidesUsage: false, body: undefined }
  const at = (minuteOfDay: number) => modelsFor([rule], { provider: 'p', request, headers: {}, minuteOfDay })[0]
  expect([21 * 60 + 59, 22 * 60, 0, 6 * 60 - 1, 6 * 60].map((minute) => at(minute) !== undefined)).toEqual([
    ...[false, true, true, true, false],
  ])
  expect(minuteOfDayIn('Europe/Berlin')(Date.UTC(2026, 6, 1, 22, 30))).toBe(30)
})
