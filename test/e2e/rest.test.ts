import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { endSupervisor } from '../support/end-supervisor.ts'
import { agentYaml } from '../support/executions.ts'
import { type RealServer, startRealServer } from '../support/real-server.ts'
import { type Line, type ScriptedModel, scriptedModels, startScriptedModel } from '../support/scripted-model.ts'

/** Agents and executions by REST, with streams of events, in the real program. */
let dataDir: string
let model: ScriptedModel
let server: RealServer
/** What the model waits for before it answers, by a word in the question. */
const gates = new Map<string, Promise<void>>()

beforeAll(async () => {
  dataDir = mkdtempSync(join(tmpdir(), 'castellan-rest-'))
  model = await startScriptedModel(async ({ text }): Promise<Line> => {
    for (const [word, gate] of gates) if (text.includes(word)) await gate
    return { text: 'forty-two' }
  })
  writeFileSync(join(dataDir, 'castellan.yaml'), JSON.stringify(scriptedModels(model)))
  server = await startRealServer({ dataDir, env: { MODEL_KEY: 'k' } })
  expect((await send('POST', '/v1/agents', manifestOf('answerer'))).status).toBe(201)
})
afterAll(async () => {
  await server.stop()
  await model.stop()
  await endSupervisor(dataDir)
  rmSync(dataDir, { recursive: true, force: true })
})

const manifestOf = (name: string): object => parse(agentYaml(name, '  task: { instruction: "Answer." }\n')) as object

type Reply = Readonly<{ status: number; headers: Headers; body: unknown }>
type Row = Record<string, unknown>

async function send(method: string, path: string, body?: object, headers: Record<string, string> = {}): Promise<Reply> {
  const response = await fetch(new URL(path, server.url), {
    method,
    headers: { ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  return { status: response.status, headers: response.headers, body: await response.json() }
}

type Streamed = Readonly<{ id: number; data: Row }>

/** Reads a stream as it comes. */
async function* eventsOf(path: string, headers: Record<string, string> = {}): AsyncGenerator<Streamed> {
  const response = await fetch(new URL(path, server.url), { headers })
  expect([response.status, response.headers.get('content-type')]).toEqual([200, 'text/event-stream'])
  let text = ''
  const decoder = new TextDecoder()
  for await (const chunk of response.body!) {
    text += decoder.decode(chunk as Uint8Array, { stream: true })
    for (let end = text.indexOf('\n\n'); end !== -1; end = text.indexOf('\n\n')) {
      const match = /^id: (\d+)\ndata: (.*)$/.exec(text.slice(0, end))
      text = text.slice(end + 2)
      if (match !== null) yield { id: Number(match[1]), data: JSON.parse(match[2]!) as Row }
    }
  }
}

async function allOf(path: string, headers?: Record<string, string>): Promise<Streamed[]> {
  const events: Streamed[] = []
  for await (const event of eventsOf(path, headers)) events.push(event)
  return events
}

async function execute(input: object = {}): Promise<string> {
  const reply = await send('POST', '/v1/agents/answerer/execute', input)
  expect(reply.status).toBe(202)
  return (reply.body as { execution_id: string }).execution_id
}

function gate(word: string): () => void {
  const { promise, resolve } = Promise.withResolvers<void>()
  gates.set(word, promise)
  return resolve
}

describe('agents', () => {
  test('are deployed, listed, found and removed', async () => {
    const again = await send('POST', '/v1/agents', manifestOf('answerer'))
    expect([again.status, (again.body as Row)['status']]).toEqual([409, 'conflict'])
    expect((await send('POST', '/v1/agents?force', manifestOf('answerer'))).status).toBe(201)
    const list = await send('GET', '/v1/agents')
    expect((list.body as Row[]).map(({ name }) => name)).toContain('answerer')
    expect(Number(list.headers.get('x-total-count'))).toBe((list.body as Row[]).length)
    const found = (await send('GET', '/v1/agents/lookup/answerer')).body as Row
    expect((await send('GET', `/v1/agents/${String(found['agent_id'])}`)).body).toMatchObject({ name: 'answerer' })
    await send('POST', '/v1/agents', { manifest_yaml: agentYaml('short-lived', '  task: { instruction: "x" }\n') })
    expect((await send('DELETE', '/v1/agents/short-lived')).body).toMatchObject({ deleted: true })
    expect((await send('GET', '/v1/agents/short-lived')).status).toBe(404)
  })

  test('are refused as their tools refuse', async () => {
    const empty = await send('POST', '/v1/agents', {})
    expect([empty.status, JSON.stringify(empty.body)]).toEqual([400, expect.stringContaining('manifest_yaml')])
    expect((await send('POST', '/v1/agents/nobody/execute', {})).status).toBe(404)
    const unknown = await send('POST', '/v1/agents/answerer/execute', { requests: 1 })
    expect([unknown.status, JSON.stringify(unknown.body)]).toEqual([400, expect.stringContaining('requests')])
    expect((await send('GET', '/v1/agents?limit=many')).status).toBe(400)
    expect((await send('PUT', '/v1/agents')).status).toBe(405)
  })

  test.each([
    ['GET', '/v1/agents?scope=global', 'scope'],
    ['GET', '/v1/agents?limt=3', 'limt'],
    ['GET', '/v1/agents/answerer/versions?version=1', 'version'],
    ['GET', '/v1/agents/answerer/events?folow=false', 'folow'],
    ['GET', '/v1/human-approvals?offset=1', 'offset'],
    ['DELETE', '/v1/agents/answerer?force', 'force'],
  ])('take no parameters in the address that they do not have: %s %s', async (method, path, name) => {
    const { status, body } = await send(method, path)
    expect([status, body]).toMatchObject([400, { error: { code: 'ERR_INVALID_INPUT', details: { field: name } } }])
  })

  test('take those that they have', async () => {
    for (const path of [
      '/v1/agents?limit=3&offset=0&status=active&include_platform_templates',
      '/v1/workflows/executions?limit=3&workflow_id=a&workflow_name=b',
      '/v1/executions?limit=3&agent_id=answerer',
    ]) {
      expect([path, (await send('GET', path)).status]).toEqual([path, 200])
    }
  })
})

describe('intents', () => {
  test('say where their events are streamed, and they are', async () => {
    const started = await send('POST', '/v1/tools/aegis.execute.intent', { intent: 'Anything.' })
    const { pipeline_execution_id: id, stream_url: url } = started.body as Record<string, string>
    expect(url).toBe(new URL(`/v1/workflows/executions/${id}/logs/stream`, server.url).href)
    const events = await allOf(url!)
    expect(events[0]!.data['event_type']).toBe('intent_execution_pipeline_started')
    // The model writes no manifest here.
    expect(events.at(-1)!.data['event_type']).toBe('intent_execution_pipeline_failed')
    const displayed = await send('POST', '/v1/tools/aegis.execute.status', { pipeline_execution_id: id })
    expect(displayed.body).toMatchObject({ status: 'failed', failed_at_state: 'code_generation' })
  })
})

describe('executions', () => {
  test('are followed from their beginning to their end, and again from any event', async () => {
    const id = await execute({ intent: 'Now.' })
    const events = await allOf(`/v1/executions/${id}/events`)
    expect(events.map(({ id: number }) => number)).toEqual(events.map((_, index) => index + 1))
    expect(events.at(0)?.data).toMatchObject({
      sequence: 1,
      event_type: 'execution_started',
      category: 'execution',
      execution_id: id,
      message: expect.stringContaining('Execution started'),
    })
    expect(events.at(-1)?.data['event_type']).toBe('execution_completed')
    const rest = await allOf(`/v1/executions/${id}/events`, { 'last-event-id': '2' })
    expect(rest).toEqual(events.slice(2))
    expect(await allOf(`/v1/executions/${id}/events?last_event_id=${events.length}`)).toEqual([])
    expect((await send('GET', `/v1/executions/${id}`)).body).toMatchObject({ status: 'completed' })
    expect(((await send('GET', '/v1/executions?limit=5')).body as Row[]).map((row) => row['id'])).toContain(id)
    expect((await send('GET', `/v1/executions/${id}/logs?limit=1`)).body).toMatchObject({ total: events.length })
    expect((await send('DELETE', `/v1/executions/${id}`)).status).toBe(200)
    expect((await send('GET', `/v1/executions/${id}`)).status).toBe(404)
  })

  test('are seen while they happen', async () => {
    const open = gate('Patiently.')
    const id = await execute({ intent: 'Patiently.' })
    const types: unknown[] = []
    for await (const { data } of eventsOf(`/v1/executions/${id}/events`)) {
      types.push(data['event_type'])
      if (data['event_type'] === 'execution_started') {
        const soFar = await allOf(`/v1/executions/${id}/events?follow=false`)
        const kinds = soFar.map((event) => event.data['event_type'])
        expect(kinds.slice(0, types.length)).toEqual(types)
        expect(kinds).not.toContain('execution_completed')
        open()
      }
    }
    expect(types.at(-1)).toBe('execution_completed')
  })

  test('go on in a new stream after the server was killed', async () => {
    const open = gate('Killed.')
    const id = await execute({ intent: 'Killed.' })
    let last = 0
    try {
      for await (const { id: number, data } of eventsOf(`/v1/executions/${id}/events`)) {
        last = number
        if (data['event_type'] !== 'execution_started') continue
        server.kill('SIGKILL')
        await server.ended
      }
    } catch {
      // The connection went with the server.
    }
    open()
    server = await startRealServer({ dataDir, env: { MODEL_KEY: 'k' } })
    const rest = await allOf(`/v1/executions/${id}/events`, { 'last-event-id': String(last) })
    expect(rest[0]?.id).toBe(last + 1)
    expect(rest.at(-1)?.data['event_type']).toBe('execution_completed')
  })

  test('are cancelled, which ends their stream', async () => {
    const open = gate('Forever.')
    const id = await execute({ intent: 'Forever.' })
    const types: unknown[] = []
    for await (const { data } of eventsOf(`/v1/executions/${id}/events`)) {
      types.push(data['event_type'])
      if (data['event_type'] === 'execution_started') {
        expect((await send('POST', `/v1/executions/${id}/cancel`, {})).status).toBe(200)
      }
    }
    open()
    expect(types.at(-1)).toBe('execution_cancelled')
  })

  test('of others are not there, nor their streams', async () => {
    const id = await execute({ intent: 'Mine.' })
    const key = await send('POST', '/v1/tools/api_key_create', { name: 'other' })
    const authorization = { authorization: `Bearer ${String((key.body as Row)['secret'])}` }
    for (const path of ['', '/events', '/logs']) {
      expect((await send('GET', `/v1/executions/${id}${path}`, undefined, authorization)).status).toBe(404)
    }
    expect((await send('GET', '/v1/executions/no-such-one/events')).status).toBe(404)
    expect((await send('GET', `/v1/executions/${id}/events`, undefined, { 'last-event-id': '-1' })).status).toBe(400)
  })
})

describe('waiting over MCP', () => {
  const tasks = { extensions: { 'io.modelcontextprotocol/tasks': {} } }

  async function rpc(method: string, params: Row, name: string, capabilities: object = tasks): Promise<Row> {
    const _meta = {
      'io.modelcontextprotocol/protocolVersion': '2026-07-28',
      'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
      'io.modelcontextprotocol/clientCapabilities': capabilities,
    }
    const { body } = await send(
      'POST',
      '/mcp',
      { jsonrpc: '2.0', id: 1, method, params: { ...params, _meta } },
      {
        accept: 'application/json, text/event-stream',
        'mcp-protocol-version': '2026-07-28',
        'mcp-method': method,
        'mcp-name': name,
      },
    )
    return body as Row
  }

  test('is a task for a client that knows tasks, and a call for others', async () => {
    const open = gate('Task.')
    const execution_id = await execute({ intent: 'Task.' })
    const call = { name: 'aegis.task.wait', arguments: { execution_id } }
    const created = (await rpc('tools/call', call, call.name))['result'] as Row
    expect(created).toMatchObject({ resultType: 'task', status: 'working' })
    const taskId = String(created['taskId'])
    expect((await rpc('tasks/get', { taskId }, taskId))['result']).toMatchObject({ status: 'working' })
    expect((await rpc('tasks/get', { taskId }, taskId, {}))['error']).toMatchObject({ code: -32021 })
    open()
    await expect
      .poll(async () => (await rpc('tasks/get', { taskId }, taskId))['result'])
      .toMatchObject({ status: 'completed', result: { structuredContent: { status: 'completed' } } })
    const plain = (await rpc('tools/call', call, call.name, {}))['result'] as Row
    expect(plain).toMatchObject({ resultType: 'complete', structuredContent: { status: 'completed' } })
  })
})
