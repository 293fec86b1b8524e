import { rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { Client as OlderClient } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport as OlderTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import type { Transport as OlderTransportType } from '@modelcontextprotocol/sdk/shared/transport.js'
import { CallToolResultSchema, ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { modernMeta } from '../support/line-peer.ts'
import { type ModernUpstream, startModernUpstream } from '../support/modern-upstream.ts'
import { newDataDir } from '../support/real-server.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'

/** Tasks of servers behind a gateway, of both revisions, for clients of both: the program, and real servers and clients. */
type Row = Record<string, unknown>
const packages = resolve('node_modules')
const TASKS = 'io.modelcontextprotocol/tasks'
const RESEARCH = 'everything__simulate-research-query'

let dataDir = ''
let server: ServerHere
let upstream: ModernUpstream
let owner: Client
let gateway: { id: string; path: string }

async function ask<T = Row>(name: string, args: Row): Promise<T> {
  const answer = await owner.callTool({ name, arguments: args })
  if (answer.isError) throw new Error(`${name}: ${JSON.stringify(answer.content)}`)
  return answer.structuredContent as T
}

async function add(name: string, config: Row): Promise<void> {
  const { id } = await ask<{ id: string }>('create_mcp_server', { name, scope: 'org', ...config })
  const deployed = await ask<{ status: string }>('deploy_mcp_server', { catalogId: id, scope: 'org' })
  if (deployed.status !== 'success') throw new Error(JSON.stringify(deployed))
}

beforeAll(async () => {
  dataDir = newDataDir()
  writeFileSync(
    join(dataDir, 'castellan.yaml'),
    `workspaces: { mounts: [{ path: ${packages}, mode: ro }], store_gb: 2 }\nweb: { allow_private_addresses: ["127.0.0.1"] }\n`,
  )
  upstream = await startModernUpstream()
  server = await startServerHere({ dataDir, args: ['--tools', 'full'] })
  owner = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode: 'auto' } })
  await owner.connect(new StreamableHTTPClientTransport(new URL('/mcp?tools=full', server.url)))
  await add('modern', { serverUrl: upstream.url })
  const entry = `${packages}/@modelcontextprotocol/server-everything/dist/index.js`
  const mounts = [{ host_path: packages, path: packages }]
  await add('everything', { command: 'node', arguments: [entry, 'stdio'], mounts })
  gateway = await ask<{ id: string; path: string }>('create_mcp_gateway', { name: 'Kitchen' })
  const names = ['bake', 'choose', 'brood', 'echo'].map((name) => `modern__${name}`)
  const assignments = [...names, RESEARCH, 'task_list', 'context_trust_get'].map((toolId) => ({
    mcpGatewayId: gateway.id,
    toolId,
  }))
  const resolving = assignments.map((one) => ({
    ...one,
    ...(one.toolId.includes('__') && { resolveAtCallTime: true }),
  }))
  const { failed } = await ask<{ failed: Row[] }>('bulk_assign_tools_to_mcp_gateways', { assignments: resolving })
  if (failed.length > 0) throw new Error(JSON.stringify(failed))
})
afterAll(async () => {
  await owner.close()
  await server.stop()
  await upstream[Symbol.asyncDispose]()
  rmSync(dataDir, { recursive: true, force: true })
})

const textOf = (answer: unknown): string =>
  (answer as { content: { text?: string }[] }).content.map(({ text }) => text ?? '').join('\n')

async function olderClient(filling = 'plum') {
  const client = new OlderClient(
    { name: 'older', version: '1' },
    { capabilities: { elicitation: { form: {} }, tasks: { requests: { elicitation: { create: {} } } } } },
  )
  client.setRequestHandler(ElicitRequestSchema, async () => ({
    action: 'accept' as const,
    content: { filling, interpretation: 'technical' },
  }))
  await client.connect(new OlderTransport(new URL(gateway.path, server.url)) as OlderTransportType)
  // The SDK wants to have seen which tools take tasks.
  await client.listTools()
  return client
}

/** From the call to the end of its task, in 2025-11-25. */
async function taskOf(client: OlderClient, name: string, args: Row = {}) {
  const { tasks } = client.experimental
  const said: string[] = []
  for await (const message of tasks.callToolStream({ name, arguments: args }, CallToolResultSchema)) {
    if (message.type === 'taskStatus') said.push(message.task.statusMessage ?? message.task.status)
    if (message.type === 'error') throw message.error
    if (message.type === 'result') return { said, text: textOf(message.result) }
  }
  throw new Error('the task has no end')
}

/** A request of a client of 2026-07-28 that knows tasks. */
async function newer(method: string, params: Row, abilities: Row = { extensions: { [TASKS]: {} } }): Promise<Row> {
  const _meta = { ...modernMeta, 'io.modelcontextprotocol/clientCapabilities': abilities }
  const name = params['name'] ?? params['taskId']
  const response = await fetch(new URL(gateway.path, server.url), {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': method,
      ...(name !== undefined && { 'mcp-name': String(name) }),
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: { ...params, _meta } }),
  })
  const said = await response.text()
  const line = said.split('\n').find((one) => one.startsWith('data: '))
  const { result, error } = JSON.parse(line === undefined ? said : line.slice('data: '.length)) as Record<string, Row>
  if (error !== undefined) throw new Error(JSON.stringify(error))
  return result!
}

async function ended(taskId: unknown): Promise<Row> {
  await expect.poll(async () => (await newer('tasks/get', { taskId }))['status'], WAIT).not.toBe('working')
  return await newer('tasks/get', { taskId })
}
const WAIT = { interval: 50 }

const statusesOf = (tool: string): string[] =>
  [...upstream.tasks.values()].filter((task) => task.tool === tool).map(({ status }) => status)

describe('a client that knows no tasks', () => {
  it.each(['auto', 'legacy'] as const)('waits for the answer (%s)', async (mode) => {
    const client = new Client({ name: 'plain', version: '1' }, { versionNegotiation: { mode } })
    await client.connect(new StreamableHTTPClientTransport(new URL(gateway.path, server.url)))
    const seen: (string | undefined)[] = []
    const options = { onprogress: ({ message }: { message?: string | undefined }) => void seen.push(message) }
    const baked = await client.callTool({ name: 'modern__bake', arguments: {} }, options)
    expect(baked).toMatchObject({ content: [{ text: 'bake done' }] })
    expect(baked.isError).not.toBe(true)
    expect(seen).toContain('step 2')
    const found = await client.callTool({ name: RESEARCH, arguments: { topic: 'plums' } }, options)
    expect(textOf(found)).toContain('plums')
    await client.close()
  })

  it('ends the task of a call that it cancels', async () => {
    const client = new Client({ name: 'plain', version: '1' }, { versionNegotiation: { mode: 'auto' } })
    await client.connect(new StreamableHTTPClientTransport(new URL(gateway.path, server.url)))
    const before = statusesOf('brood').length
    const abort = new AbortController()
    const calling = client.callTool({ name: 'modern__brood', arguments: {} }, { signal: abort.signal })
    await expect.poll(() => statusesOf('brood').length, WAIT).toBe(before + 1)
    abort.abort()
    await expect(calling).rejects.toThrow()
    await expect.poll(() => statusesOf('brood').at(-1), WAIT).toBe('cancelled')
    await client.close()
  })
})

describe('a client of 2025-11-25 that knows tasks', () => {
  it('has them of servers of either revision, is asked, and is told how far they are', async () => {
    const client = await olderClient()
    const { tools } = await client.listTools()
    const support = (name: string) => tools.find((tool) => tool.name === name)?.execution?.taskSupport
    expect([RESEARCH, 'modern__bake', 'task_list'].map(support)).toEqual(['optional', 'optional', undefined])
    expect((await taskOf(client, 'modern__bake')).text).toBe('bake done')
    expect((await taskOf(client, 'modern__choose')).text).toBe('choose plum')
    const research = await taskOf(client, RESEARCH, { topic: 'pears', ambiguous: true })
    expect(research.text).toContain('pears')
    expect(research.text).toContain('technical')
    await client.close()
  })

  it("lists, reads and cancels its own, and nobody else's", async () => {
    const client = await olderClient()
    const { tasks } = client.experimental
    const stream = tasks.callToolStream({ name: 'modern__brood', arguments: {} }, CallToolResultSchema)
    const first = await stream.next()
    const { taskId } = (first.value as { task: { taskId: string } }).task
    expect((await tasks.getTask(taskId)).status).toBe('working')
    expect((await tasks.listTasks()).tasks.map((task) => task.taskId)).toContain(taskId)
    const key = await ask<{ secret: string }>('api_key_create', { name: 'eve', role: 'member' })
    const eve = new OlderClient({ name: 'eve', version: '1' }, {})
    const headers = { authorization: `Bearer ${key.secret}` }
    const url = new URL(gateway.path, server.url)
    await eve.connect(new OlderTransport(url, { requestInit: { headers } }) as OlderTransportType)
    expect((await eve.experimental.tasks.listTasks()).tasks).toEqual([])
    for (const attempt of ['getTask', 'cancelTask', 'getTaskResult'] as const) {
      await expect(eve.experimental.tasks[attempt](taskId)).rejects.toThrow('you have no such task')
    }
    await eve.close()
    expect((await tasks.cancelTask(taskId)).status).toBe('cancelled')
    await expect.poll(() => statusesOf('brood').at(-1), WAIT).toBe('cancelled')
    await expect(tasks.getTaskResult(taskId, CallToolResultSchema)).rejects.toThrow('cancelled')
    await expect(tasks.cancelTask(taskId)).rejects.toThrow('has ended')
    await client.close()
  })
})

describe('a task that is read over another connection of its caller', () => {
  it('makes that connection as untrusted as the one that made the call', async () => {
    const trustOf = async (client: OlderClient) => {
      const { structuredContent } = await client.callTool({ name: 'context_trust_get', arguments: {} })
      return (structuredContent as { untrusted: boolean }).untrusted
    }
    const [caller, reader, canceller, lister] = await Promise.all(['a', 'b', 'c', 'd'].map(() => olderClient()))
    const stream = caller!.experimental.tasks.callToolStream(
      { name: 'modern__bake', arguments: {} },
      CallToolResultSchema,
    )
    let taskId = ''
    for await (const message of stream) if (message.type === 'taskCreated') taskId = message.task.taskId
    expect(await trustOf(caller!)).toBe(true)
    const { tasks } = await lister!.experimental.tasks.listTasks()
    const listed = tasks.find((task) => task.taskId === taskId)
    expect([listed?.status, listed?.statusMessage, await trustOf(lister!)]).toEqual(['completed', undefined, false])
    expect(await trustOf(reader!)).toBe(false)
    expect(textOf(await reader!.experimental.tasks.getTaskResult(taskId, CallToolResultSchema))).toBe('bake done')
    expect(await trustOf(reader!)).toBe(true)
    await expect(canceller!.experimental.tasks.cancelTask(taskId)).rejects.toThrow('has ended')
    expect(await trustOf(canceller!)).toBe(true)
    for (const client of [caller, reader, canceller, lister]) await client!.close()
  })
})

describe('a client of 2026-07-28 that knows tasks', () => {
  it('has them of servers of either revision', async () => {
    for (const [name, args, said] of [
      ['modern__bake', {}, 'bake done'],
      [RESEARCH, { topic: 'quinces' }, 'quinces'],
    ] as const) {
      const { resultType, taskId } = await newer('tools/call', { name, arguments: args })
      expect(resultType).toBe('task')
      const { status, result } = await ended(taskId)
      expect(status).toBe('completed')
      expect(textOf(result)).toContain(said)
    }
    const echo = await newer('tools/call', { name: 'task_list', arguments: {} })
    expect(echo['resultType']).toBe('complete')
  })

  it.each([
    ['modern__choose', {}, 'filling', 'cherry'],
    [RESEARCH, { topic: 'figs', ambiguous: true }, 'interpretation', 'historical'],
  ])('answers what %s asks', async (name, args, field, value) => {
    const abilities = { extensions: { [TASKS]: {} }, elicitation: { form: {} } }
    const { taskId } = await newer('tools/call', { name, arguments: args }, abilities)
    const asked = await ended(taskId)
    expect(asked['status']).toBe('input_required')
    const answer = { action: 'accept', content: { [field]: value } }
    const keys = Object.keys(asked['inputRequests'] as Row)
    const inputResponses = Object.fromEntries(keys.map((key) => [key, answer]))
    await newer('tasks/update', { taskId, inputResponses }, abilities)
    expect(textOf((await ended(taskId))['result'])).toContain(value)
  })

  it('cancels one, which ends at its server', async () => {
    const { taskId } = await newer('tools/call', { name: 'modern__brood', arguments: {} })
    await expect.poll(() => statusesOf('brood').at(-1), WAIT).toBe('working')
    await newer('tasks/cancel', { taskId })
    await expect.poll(() => statusesOf('brood').at(-1), WAIT).toBe('cancelled')
    expect((await newer('tasks/get', { taskId }))['status']).toBe('cancelled')
  })
})
