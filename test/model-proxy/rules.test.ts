import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import OpenAI from 'openai'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type ModelRule, minuteOfDayIn, modelsFor } from '../../src/model-proxy/rules/model-rules.ts'
import { runCastellanHere } from '../support/castellan-here.ts'
import { agentYaml } from '../support/executions.ts'
import { answerChat, answerWith, type ModelPeer, startModelPeer } from '../support/model-peer.ts'
import { newDataDir } from '../support/real-server.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'

type Peer = Awaited<ReturnType<typeof startModelPeer>>
let first: Peer
let second: Peer
let server: ServerHere
let origin: string
/** A key of its own: who reads the texts of models governs nothing afterwards. */
let reader: Record<string, string>

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
  {
    ...{ name: 'keyed', type: 'openai-compatible', endpoint: other, api_key: 'env:NO_SUCH_KEY_OF_A_PROVIDER' },
    models: [{ alias: 'keyed', model: 'k', ...price(10) }],
  },
]
const rules = [
  {
    name: 'short',
    when: { provider: 'first', models: ['large'], max_tokens: 100, has_tools: false },
    use: { provider: 'first', model: 'small' },
  },
  { name: 'by-header', when: { headers: { 'X-Team': 'research' } }, use: { provider: 'second', model: 'm' } },
  {
    name: 'failing',
    when: { models: ['large', 'huge*'] },
    fall_back: [
      { provider: 'first', model: 'small' },
      { provider: 'keyed', model: 'k' },
      { provider: 'second', model: 'm' },
    ],
  },
]

beforeAll(async () => {
  first = await startModelPeer()
  second = await startModelPeer()
  const dataDir = newDataDir()
  mkdirSync(dataDir, { recursive: true })
  const providers = providersOf(first.url, second.url)
  const config = {
    models: { providers, max_retries: 0 },
    ...{ model_proxy: { rules }, limits: { wait_ms: 0 }, rate_limits: { enabled: false } },
  }
  writeFileSync(join(dataDir, 'castellan.yaml'), JSON.stringify(config))
  server = { ...(await startServerHere({ dataDir })), dataDir }
  origin = new URL(server.url).origin
  const { secret } = await tool<{ secret: string }>('api_key_create', { name: 'reader', role: 'admin' })
  reader = { authorization: `Bearer ${secret}` }
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

async function tool<T>(name: string, args: object, more: Record<string, string> = {}): Promise<T> {
  const body = JSON.stringify(args)
  const headers = { 'content-type': 'application/json', ...more }
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

  it('judges the calls in the answer of the model that it falls back to, at once and in a stream', async () => {
    const policy = { toolId: 'client:send_mail', conditions: [], action: 'block_always', reason: 'no mail' }
    const made = await tool<{ policy: { id: string } }>('create_tool_invocation_policy', policy)
    first.answer = answerWith(503)
    const call = { index: 0, id: 'call_1', type: 'function', function: { name: 'send_mail', arguments: '{}' } }
    second.answer = ({ body, response }) => {
      const isStream = body['stream'] === true
      const said = { role: 'assistant', content: null, tool_calls: [call] }
      const choice = { index: 0, finish_reason: 'tool_calls', [isStream ? 'delta' : 'message']: said }
      const answer = JSON.stringify({ id: 'c', model: 'm', choices: [choice] })
      response.writeHead(200, { 'content-type': isStream ? 'text/event-stream' : 'application/json' })
      response.end(isStream ? `data: ${answer}\n\ndata: [DONE]\n\n` : answer)
    }
    const mail = [{ type: 'function', function: { name: 'send_mail', parameters: { type: 'object', properties: {} } } }]
    const { data } = await ask({ tools: mail })
    expect(data.choices[0]!.message.tool_calls ?? []).toEqual([])
    expect(data.choices[0]!.message.content).toContain(made.policy.id)
    const client = new OpenAI({ apiKey: 'castellan', baseURL: `${origin}/v1/first`, maxRetries: 0 })
    const messages = [{ role: 'user' as const, content: long }]
    const streamed = { model: 'large', messages, tools: mail as OpenAI.ChatCompletionTool[], stream: true } as const
    let text = ''
    for await (const { choices } of await client.chat.completions.create(streamed)) {
      expect(choices[0]?.delta.tool_calls ?? []).toEqual([])
      text += choices[0]?.delta.content ?? ''
    }
    expect(text).toContain(made.policy.id)
    expect(asked(second)).toEqual(['m', 'm'])
    await tool('delete_tool_invocation_policy', { id: made.policy.id })
  })

  it('falls back from a whole answer that breaks off, judges what it gets, and pays for both', async () => {
    const policy = { toolId: 'client:send_mail', conditions: [], action: 'block_always', reason: 'no mail' }
    const made = await tool<{ policy: { id: string } }>('create_tool_invocation_policy', policy)
    const limit = { entity_type: 'organization', entity_id: 'local', limit_type: 'token_cost', limit_value: 1 }
    const { limit: budget } = await tool<{ limit: { id: string } }>('create_limit', limit)
    const used = async () =>
      (await tool<{ limits: { id: string; used: number }[] }>('get_limits', {})).limits.find(
        ({ id }) => id === budget.id,
      )!.used
    first.answer = ({ response }) => {
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': '1000' })
      response.write('{"id":"c","model":"large","choices":[', () => response.destroy())
    }
    const call = { id: 'call_1', type: 'function', function: { name: 'send_mail', arguments: '{}' } }
    const choice = { index: 0, finish_reason: 'tool_calls', message: { role: 'assistant', tool_calls: [call] } }
    second.answer = ({ response }) => {
      const usage = { prompt_tokens: 5, completion_tokens: 7, total_tokens: 12 }
      response.writeHead(200, { 'content-type': 'application/json' })
      response.end(JSON.stringify({ id: 'c', model: 'm', choices: [choice], usage }))
    }
    const { data, response } = await ask()
    expect(response.headers.get('x-castellan-model')).toBe('second:m')
    expect(data.choices[0]!.message).toMatchObject({ content: expect.stringContaining(made.policy.id) })
    expect(data.choices[0]!.message.tool_calls ?? []).toEqual([])
    expect([asked(first), asked(second)]).toEqual([['large', 'small'], ['m']])
    // Its provider may bill the input of each of the two that were not complete, and of 100 tokens what it can have written.
    const before = await used()
    expect(before).toBeGreaterThan(0.001)
    expect(before).toBeLessThanOrEqual(0.01017)
    // An answer that has started is never replaced. What passed of it is paid, once.
    first.answer = ({ response }) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      const event = { id: 'c', model: 'large', choices: [{ index: 0, delta: { content: 'Hello' } }] }
      response.write(`data: ${JSON.stringify(event)}\n\n`, () => response.destroy())
    }
    const client = new OpenAI({ apiKey: 'castellan', baseURL: `${origin}/v1/first`, maxRetries: 0 })
    const messages = [{ role: 'user' as const, content: long }]
    const read = async () => {
      const streamed = { model: 'large', messages, stream: true, max_tokens: 1_000 } as const
      for await (const chunk of await client.chat.completions.create(streamed)) void chunk
    }
    await expect(read()).rejects.toThrow()
    const paid = await used()
    expect(paid).toBeGreaterThan(before)
    expect(paid).toBeLessThan(before + 0.01)
    expect(asked(second)).toEqual(['m'])
    await tool('delete_limit', { id: budget.id })
    await tool('delete_tool_invocation_policy', { id: made.policy.id })
  })

  it('holds for agents too: a cheaper model, and others when a provider fails', async () => {
    const run = async (agent: string) => {
      const { execution_id } = await tool<{ execution_id: string }>('aegis.task.execute', { agent_id: agent })
      const ended = await tool<{ status: string }>('aegis.task.wait', { execution_id, timeout_seconds: 30 })
      const found = await tool<{ interactions: { id: string }[] }>('interaction_list', { run_id: execution_id }, reader)
      const { interactions } = found
      const detailed = await Promise.all(
        interactions.map(({ id }) => tool<{ interaction: Record<string, unknown> }>('interaction_get', { id }, reader)),
      )
      return { ended, noted: detailed.map(({ interaction }) => interaction).reverse() }
    }
    await tool('aegis.agent.create', { manifest_yaml: agentYaml('brief', '  task: { instruction: "Say." }\n') })
    const brief = await run('brief')
    expect(brief.ended.status).toBe('completed')
    expect(brief.noted).toMatchObject([
      { model: 'small', requested_model: 'large', rule: { id: null, name: 'short' }, saved_usd: expect.any(Number) },
    ])
    const instruction = JSON.stringify(`Say. ${long}`)
    await tool('aegis.agent.create', { manifest_yaml: agentYaml('wordy', `  task: { instruction: ${instruction} }\n`) })
    first.answer = answerWith(503)
    const wordy = await run('wordy')
    expect(wordy.ended.status).toBe('completed')
    expect(wordy.noted).toMatchObject([
      { provider: 'first', model: 'large', outcome: 'failed', rule: null },
      { provider: 'first', model: 'small', outcome: 'failed', rule: { name: 'failing' }, saved_usd: null },
      { provider: 'second', model: 'm', outcome: 'ok', rule: { name: 'failing' }, requested_model: 'large' },
    ])
    expect(asked(second)).toEqual(['m'])
  })

  it('a provider whose variable is not set is there for those who stored a key', async () => {
    const manifest = agentYaml('keyed', '  task: { instruction: "Say." }\n')
    const manifest_yaml = manifest.replace('version: "3.11" }', 'version: "3.11", model: keyed }')
    await tool('aegis.agent.create', { manifest_yaml })
    const run = async () => {
      const { execution_id } = await tool<{ execution_id: string }>('aegis.task.execute', { agent_id: 'keyed' })
      const args = { execution_id, timeout_seconds: 30 }
      return await tool<{ status: string; last_error: string | null }>('aegis.task.wait', args)
    }
    const keyed = () => ask({ model: 'k' }, { path: 'keyed' })
    expect((await run()).last_error).toMatch(/ERR_MODEL_UNAVAILABLE.*NO_SUCH_KEY_OF_A_PROVIDER.*/)
    await expect(keyed()).rejects.toMatchObject({ status: 401, code: 'ERR_PROVIDER_KEY_MISSING' })
    expect(second.requests).toEqual([])
    await tool('provider_key_create', { name: 'mine', provider: 'keyed', secret: 'a-stored-key' })
    expect((await run()).status).toBe('completed')
    expect((await keyed()).data.choices[0]!.message.content).toBe('Hello.')
    expect(second.requests.map(({ headers }) => headers.authorization)).toEqual([
      ...['Bearer a-stored-key', 'Bearer a-stored-key'],
    ])
    first.answer = answerWith(503)
    expect((await ask()).response.headers.get('x-castellan-model')).toBe('keyed:k')
    await tool('provider_key_delete', { name: 'mine' })
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
  const request = { provider: 'p', model: 'x', tokens: 0, hasTools: false }
  const at = (minuteOfDay: number) => modelsFor([rule], { ...request, headers: {}, minuteOfDay })[0]
  expect([21 * 60 + 59, 22 * 60, 0, 6 * 60 - 1, 6 * 60].map((minute) => at(minute) !== undefined)).toEqual([
    ...[false, true, true, true, false],
  ])
  expect(minuteOfDayIn('Europe/Berlin')(Date.UTC(2026, 6, 1, 22, 30))).toBe(30)
})
