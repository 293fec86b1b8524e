import { connect } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type ServerHere, startServerHere } from '../support/server-here.ts'

/** Workflows, their streams and the approvals that they wait for, by REST in the real program. */
let server: ServerHere
beforeAll(async () => {
  server = await startServerHere()
  const created = await send('POST', '/v1/workflows', manifest)
  expect([created.status, created.body]).toEqual([201, expect.anything()])
})
afterAll(() => server.stop())

const manifest = {
  apiVersion: '100monkeys.ai/v1',
  kind: 'Workflow',
  metadata: { name: 'ask-first', version: '1.0.0' },
  spec: {
    initial_state: 'ASK',
    states: {
      ASK: {
        kind: 'Human',
        prompt: 'Publish {{input.what}}?',
        timeout: '24h',
        transitions: [
          { condition: 'input_equals_yes', target: 'DONE' },
          { condition: 'always', target: 'STOPPED' },
        ],
      },
      DONE: { kind: 'System', command: 'update_blackboard', env: { done: 'yes' }, transitions: [] },
      STOPPED: {
        kind: 'System',
        command: 'update_blackboard',
        env: { why: '{{ASK.feedback}}', who: '{{ASK.by}}' },
        transitions: [],
      },
    },
  },
}

type Row = Record<string, unknown>
type Reply = Readonly<{ status: number; body: unknown }>

async function send(method: string, path: string, body?: object, headers: Record<string, string> = {}): Promise<Reply> {
  const response = await fetch(new URL(path, server.url), {
    method,
    headers: { ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  return { status: response.status, body: await response.json() }
}

async function runUntilAsked(what: string): Promise<string> {
  const { status, body } = await send('POST', '/v1/workflows/ask-first/run', { input: { what } })
  expect(status).toBe(202)
  const id = String((body as Row)['execution_id'])
  await expect.poll(async () => (await send('GET', `/v1/human-approvals/${id}`)).status).toBe(200)
  return id
}

const stateOf = async (id: string) => (await send('GET', `/v1/workflows/executions/${id}`)).body as Row
const streamOf = async (id: string): Promise<string> =>
  await (await fetch(new URL(`/v1/workflows/executions/${id}/logs/stream`, server.url))).text()

describe('workflows', () => {
  test('are deployed once, listed, shown and removed', async () => {
    expect((await send('POST', '/v1/workflows', manifest)).status).toBe(409)
    expect(((await send('GET', '/v1/workflows')).body as Row[]).map(({ name }) => name)).toContain('ask-first')
    expect((await send('GET', '/v1/workflows/ask-first')).body).toMatchObject({ name: 'ask-first', version: '1.0.0' })
    const other = { ...manifest, metadata: { name: 'gone-soon', version: '1.0.0' } }
    expect((await send('POST', '/v1/workflows', other)).status).toBe(201)
    const later = { ...manifest, metadata: { name: 'gone-soon', version: '1.10.0' } }
    expect((await send('POST', '/v1/workflows', later)).status).toBe(201)
    const versions = (await send('GET', '/v1/workflows/gone-soon/versions')).body as Row[]
    expect(versions.map(({ version, latest }) => [version, latest])).toEqual([
      ['1.10.0', true],
      ['1.0.0', false],
    ])
    expect((await send('GET', '/v1/workflows/nothing/versions')).status).toBe(404)
    expect((await send('DELETE', '/v1/workflows/gone-soon')).status).toBe(200)
    expect((await send('GET', '/v1/workflows/gone-soon')).status).toBe(404)
  })

  test('ask a person, who approves by REST', async () => {
    const id = await runUntilAsked('notes')
    const approvals = (await send('GET', '/v1/human-approvals')).body as Row[]
    expect(approvals.find((approval) => approval['id'] === id)).toMatchObject({
      execution_id: id,
      workflow_name: 'ask-first',
      state: 'ASK',
      prompt: 'Publish notes?',
    })
    expect((await send('POST', `/v1/human-approvals/${id}/approve`, {})).body).toEqual({ id, status: 'approved' })
    const text = await streamOf(id)
    expect(text).toMatch(/^id: 1\ndata: /)
    expect(text.trimEnd().split('\n').at(-1)).toContain('workflow_execution_completed')
    expect(await stateOf(id)).toMatchObject({ status: 'completed', blackboard: { done: 'yes' } })
    expect((await send('GET', `/v1/human-approvals/${id}`)).status).toBe(404)
    expect((await send('POST', `/v1/human-approvals/${id}/approve`, {})).status).toBe(409)
    expect((await send('DELETE', `/v1/workflows/executions/${id}`)).status).toBe(200)
  })

  test('are told why they were rejected', async () => {
    const id = await runUntilAsked('secrets')
    const silent = await send('POST', `/v1/human-approvals/${id}/reject`, { rejected_by: 'Ann' })
    expect([silent.status, JSON.stringify(silent.body)]).toEqual([400, expect.stringContaining("'reason'")])
    const odd = await send('POST', `/v1/human-approvals/${id}/approve`, { reason: 'fine' })
    expect([odd.status, JSON.stringify(odd.body)]).toEqual([400, expect.stringContaining("'reason'")])
    const untold = await send('POST', `/v1/human-approvals/${id}/approve`, { feedback: { fine: true } })
    expect([untold.status, JSON.stringify(untold.body)]).toEqual([400, expect.stringContaining("'feedback'")])
    expect(
      (await send('POST', `/v1/human-approvals/${id}/reject`, { reason: 'too early', rejected_by: 'Ann' })).status,
    ).toBe(200)
    await streamOf(id)
    expect(await stateOf(id)).toMatchObject({ status: 'completed', blackboard: { why: 'too early', who: 'Ann' } })
  })

  test('are seen by those whom the scope names, whichever it was before', async () => {
    const own = { ...manifest, metadata: { name: 'wandering', version: '1.0.0' } }
    await send('POST', '/v1/workflows', own)
    const move = async (body: object) => await send('POST', '/v1/workflows/wandering/scope', body)
    for (const target_scope of ['global', 'tenant', 'user', 'tenant', 'global', 'user']) {
      expect([target_scope, await move({ target_scope })]).toMatchObject([target_scope, { status: 200 }])
      const rows = (await send('GET', '/v1/workflows')).body as Row[]
      expect(rows.find(({ name }) => name === 'wandering')).toMatchObject({ scope: target_scope })
    }
    expect((await move({ target_scope: 'tenant', action: 'demote' })).status).toBe(400)
    for (const body of [{}, { target_scope: 'all' }, { target_scope: 'tenant', action: 'up' }, { scop: 'tenant' }]) {
      expect([body, (await move(body)).status]).toEqual([body, 400])
    }
    const missing = await move({})
    expect(JSON.stringify(missing.body)).toContain('user, tenant or global')
  })

  test('show a hundred rows of their log unless told otherwise', async () => {
    const id = await runUntilAsked('rows')
    const path = `/v1/workflows/executions/${id}/logs`
    expect((await send('GET', path)).body).toMatchObject({ limit: 100, offset: 0 })
    expect((await send('GET', `${path}?limit=2&offset=1`)).body).toMatchObject({ limit: 2, offset: 1 })
    const text = await (await fetch(new URL(`${path}/stream?follow=false`, server.url))).text()
    expect(text).toContain('"message":"Workflow execution started"')
  })

  test('take a signal and a cancellation', async () => {
    const signalled = await runUntilAsked('a')
    expect(await send('POST', `/v1/workflows/executions/${signalled}/signal`, { response: 'yes' })).toEqual({
      status: 202,
      body: { status: 'signal_sent' },
    })
    const cancelled = await runUntilAsked('b')
    expect((await send('DELETE', `/v1/workflows/executions/${cancelled}`)).status).toBe(409)
    expect((await send('POST', `/v1/workflows/executions/${cancelled}/cancel`, {})).status).toBe(200)
    await streamOf(cancelled)
    expect(await stateOf(cancelled)).toMatchObject({ status: 'cancelled' })
    const listed = (await send('GET', '/v1/executions?workflow_name=ask-first&limit=200')).body as Row[]
    expect(listed.map((row) => row['execution_id'])).toEqual(expect.arrayContaining([signalled, cancelled]))
    const both = await send('GET', '/v1/executions?workflow_name=ask-first&agent_id=x')
    expect([both.status, JSON.stringify(both.body)]).toEqual([400, expect.stringContaining('one of them')])
  })

  test('answer HEAD of a stream at once, and the connection takes the next request', async () => {
    const id = await runUntilAsked('head')
    const socket = connect(Number(new URL(server.url).port), '127.0.0.1')
    socket.on('error', () => {})
    let text = ''
    socket.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk
    })
    const lines = (method: string, path: string) => `${method} ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`
    socket.write(lines('HEAD', `/v1/workflows/executions/${id}/logs/stream`) + lines('GET', '/health'))
    await expect.poll(() => text).toContain('"mode":"FULL"')
    expect(text).toMatch(/^HTTP\/1\.1 200 OK\r\ncontent-type: text\/event-stream\r\n/)
    expect(text).not.toContain('data:')
    socket.destroy()
    const path = '/v1/workflows/executions/nothing/logs/stream'
    expect((await fetch(new URL(path, server.url), { method: 'HEAD' })).status).toBe(404)
  })

  test('of others are neither approved nor seen', async () => {
    const id = await runUntilAsked('mine')
    const key = await send('POST', '/v1/tools/api_key_create', { name: 'other' })
    const other = { authorization: `Bearer ${String((key.body as Row)['secret'])}` }
    expect((await send('GET', '/v1/human-approvals', undefined, other)).body).toEqual([])
    for (const [method, path, body] of [
      ['GET', `/v1/human-approvals/${id}`, undefined],
      ['POST', `/v1/human-approvals/${id}/approve`, {}],
      ['GET', `/v1/workflows/executions/${id}/logs/stream`, undefined],
    ] as const) {
      expect((await send(method, path, body, other)).status).toBe(404)
    }
  })
})
