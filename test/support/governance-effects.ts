import { mkdirSync, writeFileSync } from 'node:fs'
import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect } from 'vitest'
import { firstIdAt } from '../../src/domains/interactions/rules.ts'
import { installFaultPlan } from '../../src/kernel/fault.ts'
import { startMcpUpstream } from './mcp-upstream.ts'
import { startOtlpCollector } from './otlp-collector.ts'
import { newDataDir } from './real-server.ts'
import { startScriptedModel } from './scripted-model.ts'
import { type ServerHere, startServerHere } from './server-here.ts'

type Setting = Readonly<Record<string, string>>
type Answer = Record<string, unknown>

/** A provider that answers when the test says so. */
type Provider = Readonly<{ url: string; waiting: ServerResponse[]; close(): void }>

async function startProvider(): Promise<Provider> {
  const waiting: ServerResponse[] = []
  const service: Server = createServer((request, response) => {
    request.resume().on('end', () => waiting.push(response))
  })
  await new Promise<void>((resolve) => service.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(service.address() as AddressInfo).port}/v1`,
    waiting,
    close() {
      service.closeAllConnections()
      service.close()
    },
  }
}

const USAGE = { usage: { prompt_tokens: 10, completion_tokens: 10 } }
const answerAll = ({ waiting }: Provider): void => {
  for (const response of waiting.splice(0)) {
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ choices: [], ...USAGE }))
  }
}

/** The real program with these settings, and a provider whose model costs 10 dollars for a million tokens written. */
async function withProvider(
  setting: Setting,
  work: (server: ServerHere & { dataDir: string }, provider: Provider) => Promise<void>,
  more: object = {},
): Promise<void> {
  const provider = await startProvider()
  const dataDir = newDataDir()
  mkdirSync(dataDir, { recursive: true })
  const models = [{ alias: 'default', model: 'm', input_cost_per_million: 0, output_cost_per_million: 10 }]
  const providers = [{ name: 'peer', type: 'openai-compatible', endpoint: provider.url, models }]
  writeFileSync(join(dataDir, 'castellan.yaml'), JSON.stringify({ models: { providers }, ...more }))
  const server = await startServerHere({ dataDir, env: setting })
  try {
    await work({ ...server, dataDir }, provider)
  } finally {
    await server.stop()
    provider.close()
  }
}

async function tool(server: Pick<ServerHere, 'url'>, name: string, args: object): Promise<Answer> {
  const reply = await fetch(new URL(`/v1/tools/${name}`, server.url), {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(args),
  })
  return (await reply.json()) as Answer
}
const chat = (server: Pick<ServerHere, 'url'>, more: object = {}, headers: Setting = {}) =>
  fetch(new URL('/v1/peer/chat/completions', server.url), {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ model: 'm', messages: [], ...more }),
  })
const budget = (server: Pick<ServerHere, 'url'>, limit_value: number, more: object = {}) =>
  tool(server, 'create_limit', {
    ...{ entity_type: 'organization', entity_id: 'local', limit_type: 'token_cost', limit_value },
    ...more,
  })
const isWaiting = ({ waiting }: Provider, count: number) => expect.poll(() => waiting.length).toBe(count)

const A_KEY = `sk-${'k9'.repeat(12)}`

/** A server that starts removes what is two days old where one day is asked for: the bodies, or all of it. */
async function isPruned(setting: string, left: number): Promise<void> {
  const dataDir = newDataDir()
  mkdirSync(dataDir, { recursive: true })
  await (await startServerHere({ dataDir })).stop()
  const count = (table: string): number => {
    const file = new DatabaseSync(join(dataDir, 'castellan.db'))
    const [row] = file.prepare(`SELECT count(*) AS count FROM ${table}`).all()
    file.close()
    return Number(row!['count'])
  }
  const file = new DatabaseSync(join(dataDir, 'castellan.db'))
  const id = firstIdAt(Date.now() - 2 * 86_400_000)
  file.exec(`INSERT INTO interactions (tenant, id, started_at, owner, source, provider, outcome, facts)
    VALUES ('local', '${id}', 1, 'owner', 'proxy', 'p', 'ok', '{}')`)
  file.exec(`INSERT INTO interaction_bodies (tenant, id, is_whole, is_redacted) VALUES ('local', '${id}', 1, 1)`)
  file.close()
  const server = await startServerHere({ dataDir, env: { [setting]: '1' } })
  await expect.poll(() => count('interaction_bodies')).toBe(0)
  await expect.poll(() => count('interactions')).toBe(left)
  await server.stop()
}

/** What a collector gets of one request to a model. */
async function exported(setting: Setting, otlp: object = {}) {
  await using collector = await startOtlpCollector()
  const askOnce = async (server: ServerHere, provider: Provider): Promise<void> => {
    const reply = chat(server)
    await isWaiting(provider, 1)
    answerAll(provider)
    await (await reply).text()
  }
  const env = { CASTELLAN_INTERACTIONS_OTLP_ENDPOINT: collector.url, ...setting }
  await withProvider(env, askOnce, { interactions: { otlp } })
  return collector.seen[0]!
}

/** Settings of limits, policies and the model proxy, each given to the real program. */
export const governanceEffects: Readonly<Record<string, () => Promise<void>>> = {
  async governance() {
    for (const [governance, action] of [
      ['permissive', 'allow'],
      ['restrictive', 'deny'],
    ] as const) {
      await withProvider({ CASTELLAN_GOVERNANCE: governance }, async (server) => {
        const asked = { tool: 'web.fetch', arguments: { url: 'https://example.org' }, untrusted: true }
        expect(await tool(server, 'policy_explain', asked)).toMatchObject({ governance, call: { action } })
      })
    }
  },
  async 'limits.time_zone'() {
    await withProvider({ CASTELLAN_LIMITS_TIME_ZONE: 'Asia/Kolkata' }, async (server) => {
      const { limit } = await budget(server, 1, { cleanup_interval: 'calendar_day' })
      expect((limit as Answer)['resetsAt']).toMatch(/T18:30:00\.000Z$/)
    })
  },
  async 'limits.default_output_tokens'() {
    await withProvider({ CASTELLAN_LIMITS_DEFAULT_OUTPUT_TOKENS: '100' }, async (server, provider) => {
      await budget(server, 0.001)
      const reply = chat(server)
      await isWaiting(provider, 1)
      answerAll(provider)
      expect((await reply).status).toBe(200)
      expect((await chat(server, { max_tokens: 101 })).status).toBe(402)
    })
  },
  async 'limits.wait_ms'() {
    for (const [waitMs, status] of [
      ['0', 429],
      ['60000', 200],
    ] as const) {
      await withProvider({ CASTELLAN_LIMITS_WAIT_MS: waitMs }, async (server, provider) => {
        await budget(server, 0.001)
        const first = chat(server, { max_tokens: 90 })
        await isWaiting(provider, 1)
        const second = chat(server, { max_tokens: 80 })
        if (status === 429) expect((await second).status).toBe(status)
        answerAll(provider)
        await first
        if (status === 429) return
        await isWaiting(provider, 1)
        answerAll(provider)
        expect((await second).status).toBe(status)
      })
    }
  },
  async 'limits.fail_open'() {
    for (const [failOpen, status] of [
      ['false', 503],
      ['true', 200],
    ] as const) {
      await withProvider({ CASTELLAN_LIMITS_FAIL_OPEN: failOpen }, async (server, provider) => {
        await budget(server, 1)
        try {
          installFaultPlan((point) => {
            if (point === 'store.begin') throw new Error('the disk fails')
          })
          const reply = chat(server, { max_tokens: 1 })
          if (status === 200) {
            await isWaiting(provider, 1)
            answerAll(provider)
          }
          expect((await reply).status).toBe(status)
        } finally {
          installFaultPlan(undefined)
        }
      })
    }
  },
  async 'interactions.bodies'() {
    for (const [bodies, expected] of [
      ['none', null],
      ['redacted', { redacted: true, request: expect.stringContaining('Say ***') }],
      ['full', { redacted: false, request: expect.stringContaining(A_KEY) }],
    ] as const) {
      await withProvider({ CASTELLAN_INTERACTIONS_BODIES: bodies }, async (server, provider) => {
        const reply = chat(server, { messages: [{ role: 'user', content: `Say ${A_KEY}` }] })
        await isWaiting(provider, 1)
        answerAll(provider)
        await (await reply).text()
        const { interactions } = await tool(server, 'interaction_list', {})
        const [{ id }] = interactions as [{ id: string }]
        const { interaction } = await tool(server, 'interaction_get', { id })
        const found = (interaction as Answer)['bodies']
        if (expected === null) expect(found).toBeNull()
        else expect(found).toMatchObject(expected)
      })
    }
  },
  'interactions.retention_days': () => isPruned('CASTELLAN_INTERACTIONS_RETENTION_DAYS', 0),
  'interactions.body_retention_days': () => isPruned('CASTELLAN_INTERACTIONS_BODY_RETENTION_DAYS', 1),
  async 'interactions.otlp.endpoint'() {
    expect((await exported({})).spans).toMatchObject([{ name: 'chat m' }])
  },
  async 'interactions.otlp.headers'() {
    const setting = { CASTELLAN_INTERACTIONS_OTLP_HEADERS: 'env:MY_HEADERS', MY_HEADERS: 'x-key=k-1' }
    expect((await exported(setting)).headers).toMatchObject({ 'x-key': 'k-1' })
    for (const headers of [{ 'x-key': 'env:MY_KEY', 'x-team': 'a,b' }, 'env:MY_HEADERS']) {
      const env = { MY_KEY: 'k-2', MY_HEADERS: 'x-key=k-2,x-team=a%2Cb' }
      expect((await exported(env, { headers })).headers).toMatchObject({ 'x-key': 'k-2', 'x-team': 'a,b' })
    }
  },
  async 'sanitiser.rounds'() {
    await using model = await startScriptedModel(({ messages }) => {
      const system = String(messages[0]?.content)
      if (system.includes('Choose the option')) return { text: '{"answer": 0}' }
      return { text: 'QUESTION: Is it?\nOPTIONS:\n0: yes\n1: no' }
    })
    await using upstream = await startMcpUpstream()
    const dataDir = newDataDir()
    mkdirSync(dataDir, { recursive: true })
    const models = [{ alias: 'default', model: 'm' }]
    const providers = [{ name: 'mock', type: 'openai-compatible', endpoint: `${model.url}/v1`, models }]
    const config = { models: { providers }, web: { allow_private_addresses: ['127.0.0.1'] } }
    writeFileSync(join(dataDir, 'castellan.yaml'), JSON.stringify(config))
    const server = await startServerHere({ dataDir, env: { CASTELLAN_SANITISER_ROUNDS: '2' } })
    try {
      const item = await tool(server, 'create_mcp_server', { name: 'Up', serverUrl: upstream.url })
      await tool(server, 'deploy_mcp_server', { catalogId: item['id'] })
      const policy = { toolId: 'up__echo', conditions: [], action: 'sanitize_with_dual_llm' }
      await tool(server, 'create_trusted_data_policy', policy)
      await tool(server, 'up__echo', { text: 'x' })
      expect(model.requests).toHaveLength(2 * 2 + 1)
    } finally {
      await server.stop()
    }
  },
  async 'model_proxy.caller_keys'() {
    await withProvider({ CASTELLAN_MODEL_PROXY_CALLER_KEYS: 'false' }, async (server) => {
      expect((await chat(server, {}, { authorization: 'Bearer sk-of-mine' })).status).toBe(401)
      expect((await chat(server, {}, { 'api-key': 'sk-of-mine' })).status).toBe(401)
    })
    await withProvider({ CASTELLAN_MODEL_PROXY_CALLER_KEYS: 'true' }, async (server, provider) => {
      const reply = chat(server, {}, { authorization: 'Bearer sk-of-mine' })
      await isWaiting(provider, 1)
      answerAll(provider)
      expect((await reply).status).toBe(200)
    })
  },
  async 'model_proxy.mcp_server_names'() {
    const called = { id: 'c', type: 'function', function: { name: 'mcp__house__task_list', arguments: '{}' } }
    const message = { role: 'assistant', content: null, tool_calls: [called] }
    const answer = { model: 'm', choices: [{ index: 0, finish_reason: 'tool_calls', message }], ...USAGE }
    // Our own server asks for the approval itself. Nobody could give it for a tool of another server.
    for (const [names, passes] of [
      ['castellan', false],
      ['castellan,house', true],
    ] as const) {
      await withProvider({ CASTELLAN_MODEL_PROXY_MCP_SERVER_NAMES: names }, async (server, provider) => {
        const policy = { toolId: 'task_list', conditions: [], action: 'require_approval' }
        await tool(server, 'create_tool_invocation_policy', policy)
        const tools = [{ type: 'function', function: { name: called.function.name, parameters: {} } }]
        const reply = chat(server, { tools })
        await isWaiting(provider, 1)
        provider.waiting[0]!.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer))
        expect((await (await reply).text()).includes('"tool_calls":[')).toBe(passes)
      })
    }
  },
  async 'model_proxy.rules'() {
    const asked = async (server: ServerHere, provider: Provider): Promise<void> => {
      const reply = chat(server, { model: 'other' })
      await isWaiting(provider, 1)
      answerAll(provider)
      expect((await reply).headers.get('x-castellan-model')).toBe('peer:m')
    }
    for (const use of [{ provider: 'peer', model: 'm' }, 'peer:m']) {
      await withProvider({}, asked, { model_proxy: { rules: [{ name: 'all', use }] } })
    }
  },
  async 'model_proxy.answer_timeout_secs'() {
    await withProvider({ CASTELLAN_MODEL_PROXY_ANSWER_TIMEOUT_SECS: '1' }, async (server) => {
      expect((await chat(server)).status).toBe(504)
    })
  },
  async 'model_proxy.idle_timeout_secs'() {
    await withProvider({ CASTELLAN_MODEL_PROXY_IDLE_TIMEOUT_SECS: '1' }, async (server, provider) => {
      const reply = chat(server, { stream: true })
      await isWaiting(provider, 1)
      provider.waiting[0]!.writeHead(200, { 'content-type': 'text/event-stream' }).write('data: {"choices":[]}\n\n')
      await expect((await reply).text()).rejects.toThrow()
    })
  },
}
