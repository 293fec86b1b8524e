import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { Client as Client1 } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport as HttpTransport1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import type { Transport as Transport1 } from '@modelcontextprotocol/sdk/shared/transport.js'
import { CallToolResultSchema, ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { type ModernUpstream, NOTE, startModernUpstream } from '../support/modern-upstream.ts'
import { createDatabase } from '../support/postgres.ts'
import { type RealServer, startRealServer } from '../support/real-server.ts'

/**
 * Two processes on one PostgreSQL, and a client whose requests go to one and whose answers go to the other, as a load balancer may
 * send them: what a server behind the gateway asks is answered all the same, and its tasks are found.
 */
type Row = Record<string, unknown>
let dataDir = ''
let here: RealServer
let there: RealServer
let upstream: ModernUpstream
let path = ''
/** How many answers went to the other process. */
let answeredThere = 0

async function call<T>(tool: string, args: Row): Promise<T> {
  const response = await fetch(new URL(`/v1/tools/${tool}`, here.url), {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(args),
  })
  if (!response.ok) throw new Error(`${tool}: ${await response.text()}`)
  return (await response.json()) as T
}

const isAnswer = (body: unknown): boolean => {
  if (typeof body !== 'string') return false
  const message = JSON.parse(body) as Row
  const params = message['params'] as Row | undefined
  return message['method'] === undefined || params?.['inputResponses'] !== undefined
}
const balanced: typeof fetch = (input, init) => {
  if (!isAnswer(init?.body)) return fetch(input, init)
  answeredThere++
  const { pathname, search } = new URL(String(input))
  return fetch(new URL(`${pathname}${search}`, there.url), init)
}

beforeAll(async () => {
  dataDir = mkdtempSync(join(tmpdir(), 'castellan-processes-'))
  writeFileSync(join(dataDir, 'castellan.yaml'), 'web: { allow_private_addresses: ["127.0.0.1"] }\n')
  const env = { CASTELLAN_DATABASE_URL: await createDatabase(inject('postgresUrl')) }
  upstream = await startModernUpstream()
  here = await startRealServer({ dataDir, env })
  there = await startRealServer({ dataDir, env })
  const { id: catalogId } = await call<{ id: string }>('create_mcp_server', { name: 'up', serverUrl: upstream.url })
  await call('deploy_mcp_server', { catalogId, scope: 'org' })
  const gateway = await call<{ id: string; path: string }>('create_mcp_gateway', { name: 'Asking' })
  path = gateway.path
  const assignments = [{ mcpGatewayId: gateway.id, toolId: 'up__*', resolveAtCallTime: true }]
  await call('bulk_assign_tools_to_mcp_gateways', { assignments })
})
afterAll(async () => {
  await here.stop()
  await there.stop()
  await upstream[Symbol.asyncDispose]()
  rmSync(dataDir, { recursive: true, force: true })
})

type Asked = Readonly<{ greet(): Promise<string>; close(): Promise<void> }>
const elicit = (who: string) => async () => ({
  action: 'accept' as const,
  content: { name: who, colour: 'Red' },
})
const textOf = (answer: unknown): string => (answer as { content: { text: string }[] }).content[0]!.text
const capabilities = { elicitation: { form: {} } }

async function connect(kind: 'sdk 1.32' | 'legacy' | 'auto', who: string): Promise<Asked> {
  const url = new URL(path, here.url)
  const greet = { name: 'up__greet', arguments: {} }
  if (kind === 'sdk 1.32') {
    const client = new Client1({ name: who, version: '1' }, { capabilities })
    client.setRequestHandler(ElicitRequestSchema, elicit(who) as never)
    await client.connect(new HttpTransport1(url, { fetch: balanced }) as Transport1)
    return { greet: async () => textOf(await client.callTool(greet)), close: () => client.close() }
  }
  const client = new Client({ name: who, version: '1' }, { capabilities, versionNegotiation: { mode: kind } })
  client.setRequestHandler('elicitation/create', elicit(who) as never)
  await client.connect(new StreamableHTTPClientTransport(url, { fetch: balanced }))
  return { greet: async () => textOf(await client.callTool(greet)), close: () => client.close() }
}

const TASKS = 'io.modelcontextprotocol/tasks'
const modernMeta = (clientCapabilities: Row): Row => ({
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
  'io.modelcontextprotocol/clientCapabilities': clientCapabilities,
})

/** A request of a client of 2026-07-28 to one of the processes. */
async function newer(server: RealServer, method: string, params: Row): Promise<{ result?: Row; error?: Row }> {
  return (await messagesOf(server, method, params)).at(-1)!
}

/** What comes before the answer, and the answer. */
async function messagesOf(
  server: RealServer,
  method: string,
  params: Row,
): Promise<{ method?: string; params?: Row; result?: Row; error?: Row }[]> {
  const name = String(params['name'] ?? params['taskId'])
  const response = await fetch(new URL(path, server.url), {
    method: 'POST',
    headers: {
      ...{ 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
      ...{ 'mcp-protocol-version': '2026-07-28', 'mcp-method': method, 'mcp-name': name },
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  })
  const text = await response.text()
  const messages = text.startsWith('{') ? [text] : [...text.matchAll(/^data: (.+)$/gm)].map(([, data]) => data!)
  return messages.map((message) => JSON.parse(message) as Row)
}

describe('a task whose requests reach another process', () => {
  /** Every request about a task goes to the other process. */
  const turned: typeof fetch = (input, init) => {
    const isOfTask = typeof init?.body === 'string' && /"method":"tasks\/|"result":/.test(init.body)
    const { pathname, search } = new URL(String(input))
    if (isOfTask) tasksThere++
    return fetch(new URL(`${pathname}${search}`, (isOfTask ? there : here).url), init)
  }
  let tasksThere = 0

  it('is followed to its end, and asks its client, in 2025-11-25', async () => {
    const client = new Client1(
      { name: 'older', version: '1' },
      { capabilities: { ...capabilities, tasks: { requests: { elicitation: { create: {} } } } } },
    )
    client.setRequestHandler(ElicitRequestSchema, (async () => ({
      action: 'accept',
      content: { filling: 'plum' },
    })) as never)
    await client.connect(new HttpTransport1(new URL(path, here.url), { fetch: turned }) as Transport1)
    await client.listTools()
    const { tasks } = client.experimental
    const ends: string[] = []
    for (const name of ['up__bake', 'up__choose']) {
      for await (const message of tasks.callToolStream({ name, arguments: {} }, CallToolResultSchema)) {
        if (message.type === 'error') throw message.error
        if (message.type === 'result') ends.push(textOf(message.result))
      }
    }
    expect(ends).toEqual(['bake done', 'choose plum'])
    const brooding = () => [...upstream.tasks.values()].find(({ tool }) => tool === 'brood')
    for await (const message of tasks.callToolStream({ name: 'up__brood', arguments: {} }, CallToolResultSchema)) {
      if (message.type === 'taskCreated') {
        // Before that there is nothing behind to cancel.
        await expect.poll(() => brooding()?.looks).toBeGreaterThan(0)
        await tasks.cancelTask(message.task.taskId)
      }
      if (message.type === 'error') break
    }
    await expect.poll(() => brooding()?.status).toBe('cancelled')
    expect(tasksThere).toBeGreaterThan(4)
    await client.close()
  })

  it('is listed by every process, with its state', async () => {
    const atBoth = await Promise.all(
      [here, there].map(async ({ url }) => {
        const client = new Client1({ name: 'lists', version: '1' }, { capabilities })
        await client.connect(new HttpTransport1(new URL(path, url)) as Transport1)
        await client.listTools()
        return client
      }),
    )
    const created = await Promise.all(
      atBoth.map(async (client) => {
        const stream = client.experimental.tasks.callToolStream(
          { name: 'up__brood', arguments: {} },
          CallToolResultSchema,
        )
        for await (const message of stream) if (message.type === 'taskCreated') return message.task.taskId
        throw new Error('no task was made')
      }),
    )
    const statuses = async (client: Client1) => {
      const { tasks } = await client.experimental.tasks.listTasks()
      return created.map((id) => tasks.find(({ taskId }) => taskId === id)?.status)
    }
    for (const client of atBoth) expect(await statuses(client)).toEqual(['working', 'working'])
    await atBoth[0]!.experimental.tasks.cancelTask(created[1]!)
    await atBoth[0]!.experimental.tasks.cancelTask(created[0]!)
    for (const client of atBoth) await expect.poll(() => statuses(client)).toEqual(['cancelled', 'cancelled'])
    await Promise.all(atBoth.map((client) => client.close()))
  })

  it('is followed, answered and cancelled in 2026-07-28', async () => {
    const _meta = modernMeta({ ...capabilities, extensions: { [TASKS]: {} } })
    const begin = async (name: string) => {
      const { result } = await newer(here, 'tools/call', { name, arguments: {}, _meta })
      return String(result!['taskId'])
    }
    const get = async (taskId: string) => (await newer(there, 'tasks/get', { taskId, _meta })).result!
    const taskId = await begin('up__choose')
    await expect.poll(async () => (await get(taskId))['status'], { timeout: 30_000 }).toBe('input_required')
    const [key = ''] = Object.keys((await get(taskId))['inputRequests'] as Row)
    const inputResponses = { [key]: { action: 'accept', content: { filling: 'fig' } } }
    expect((await newer(there, 'tasks/update', { taskId, inputResponses, _meta })).result).toBeDefined()
    await expect.poll(async () => (await get(taskId))['status'], { timeout: 30_000 }).toBe('completed')
    expect(textOf((await get(taskId))['result'])).toBe('choose fig')
    const brooding = await begin('up__brood')
    expect((await newer(there, 'tasks/cancel', { taskId: brooding, _meta })).result).toBeDefined()
    expect(await get(brooding)).toMatchObject({ status: 'cancelled' })
    const { error } = await newer(there, 'tasks/get', { taskId: 'task_none', _meta })
    expect(error).toMatchObject({ code: -32602, message: expect.stringContaining('no such task') })
  })
})

describe('the log level and the subscriptions of a session', () => {
  it('hold at every process', async () => {
    let to: RealServer = here
    const logged: unknown[] = []
    const updated: string[] = []
    const client = new Client({ name: 'ada', version: '1' }, { capabilities, versionNegotiation: { mode: 'legacy' } })
    client.setRequestHandler('elicitation/create', elicit('ada') as never)
    client.setNotificationHandler('notifications/message', ({ params }) => void logged.push(params.data))
    client.setNotificationHandler('notifications/resources/updated', ({ params }) => void updated.push(params.uri))
    const directed: typeof fetch = (input, init) => {
      const isCall =
        typeof init?.body === 'string' && /"method":"(?:tools|resources)\/(?:call|subscribe)/.test(init.body)
      return fetch(new URL(new URL(String(input)).pathname, (isCall ? to : here).url), init)
    }
    await client.connect(new StreamableHTTPClientTransport(new URL(path, here.url), { fetch: directed }))
    await client.setLoggingLevel('debug')
    to = there
    expect(textOf(await client.callTool({ name: 'up__narrate', arguments: {} }))).toBe('told ada')
    expect(logged).toEqual(['about ada'])
    // The stream on which the client listens is here, and it subscribes there.
    const { resources } = await client.listResources()
    await client.subscribeResource({ uri: resources[0]!.uri })
    const hear = () => {
      upstream.update(NOTE)
      return updated
    }
    await expect.poll(hear, { timeout: 20_000 }).toContain(resources[0]!.uri)
    await client.close()
  })
})

describe('an answer that reaches another process', () => {
  it.each(['sdk 1.32', 'legacy', 'auto'] as const)('goes to the call that asked (%s)', async (kind) => {
    const before = answeredThere
    const names = ['ada', 'bob']
    const both = await Promise.all(names.map((who) => connect(kind, who)))
    // Each calls twice at once: nobody gets the answer of another call.
    const said = await Promise.all(both.flatMap((client) => [client.greet(), client.greet()]))
    expect(said).toEqual(names.flatMap((who) => [`${who} likes Red`, `${who} likes Red`]))
    expect(answeredThere - before).toBeGreaterThanOrEqual(8)
    await Promise.all(both.map((client) => client.close()))
  })

  it('brings the progress and the logs of the call after it', async () => {
    const _meta = { ...modernMeta(capabilities), progressToken: 7, 'io.modelcontextprotocol/logLevel': 'info' }
    const params = { name: 'up__narrate', arguments: {}, _meta }
    const { result } = await newer(here, 'tools/call', params)
    const { requestState, inputRequests } = result as { requestState: string; inputRequests: Row }
    const [key = ''] = Object.keys(inputRequests)
    const inputResponses = { [key]: { action: 'accept', content: { name: 'ada' } } }
    const messages = await messagesOf(there, 'tools/call', { ...params, requestState, inputResponses })
    const progress = messages.filter(({ method }) => method === 'notifications/progress')
    expect(progress.map(({ params: said }) => said)).toEqual([
      { progressToken: 7, progress: 1, total: 2 },
      { progressToken: 7, progress: 2, total: 2 },
    ])
    const logs = messages.filter(({ method }) => method === 'notifications/message')
    expect(logs.map(({ params: said }) => said?.['data'])).toEqual(['about ada'])
    expect(textOf(messages.at(-1)?.result)).toBe('told ada')
  })

  it('to a call that is gone is refused, and says what to do', async () => {
    const params = { name: 'up__greet', arguments: {}, _meta: modernMeta(capabilities) }
    const { result } = await newer(here, 'tools/call', params)
    const { requestState, inputRequests } = result as { requestState: string; inputRequests: Row }
    const [key = ''] = Object.keys(inputRequests)
    const inputResponses = { [key]: { action: 'accept', content: { name: 'eve' } } }
    here.kill('SIGKILL')
    await here.ended
    const { error } = await newer(there, 'tools/call', { ...params, requestState, inputResponses })
    expect(error?.['message']).toMatch(/call again/i)
  })
})
