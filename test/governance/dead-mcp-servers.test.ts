import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { openTestApp, type TestApp } from '../support/app.ts'
import { createLinePeer } from '../support/line-peer.ts'
import { type McpUpstream, startMcpUpstream } from '../support/mcp-upstream.ts'

/** Servers that worked when they were deployed, and then stop answering: every list says so, until they answer again. */
let app: TestApp
beforeEach(async () => {
  app = await openTestApp({ config: { 'web.allow_private_addresses': ['127.0.0.1'] } })
})
afterEach(() => app[Symbol.asyncDispose]())

type View = { status: string; state: string; error: string | null }

async function deployed(upstream: McpUpstream): Promise<string> {
  const { id } = await app.ask<{ id: string }>('create_mcp_server', { name: 'Up', serverUrl: upstream.url })
  expect(await app.ask('deploy_mcp_server', { catalogId: id })).toMatchObject({ status: 'success' })
  return id
}

const echo = async (): Promise<string> => {
  const { json, isError } = await app.call('up__echo', { text: 'hello' })
  return isError ? (JSON.parse(json) as { error: { code: string } }).error.code : 'hello'
}

async function told(id: string) {
  const peer = createLinePeer({ host: app.app.host, caller: { exposure: 'full' } })
  const { result } = await peer.request('tools/list', {})
  peer.endInput()
  await peer.session.closed
  const { items } = await app.ask<{ items: { deployments: View[] }[] }>('get_mcp_servers')
  const { deployments } = await app.ask<{ deployments: View[] }>('list_mcp_server_deployments')
  const { problems } = await app.ask<{ problems: { error: string }[] }>('get_mcp_server_tools', { mcpServerId: id })
  const view = ({ status, state, error }: View) => ({
    status,
    isRunning: state === 'running',
    hasError: error !== null,
  })
  return {
    meta: result!['_meta'],
    servers: items[0]!.deployments.map(view),
    deployments: deployments.map(view),
    problems: problems.length,
  }
}

const down = { status: 'error', isRunning: false, hasError: true }
const unreachable = [{ server: 'up', code: 'ERR_UPSTREAM_UNAVAILABLE', message: expect.any(String) }]
const isDown = { meta: { 'castellan/unreachable': unreachable }, servers: [down], deployments: [down], problems: 1 }
const up = { status: 'success', isRunning: true, hasError: false }
const isUp = { meta: undefined, servers: [up], deployments: [up], problems: 0 }

describe.each(['streamable-http', 'sse'] as const)('a server over %s', (kind) => {
  it('that was killed is an error in every list, until it is back', async () => {
    await using upstream = await startMcpUpstream(kind)
    const id = await deployed(upstream)
    expect(await echo()).toBe('hello')
    expect(await told(id)).toEqual(isUp)
    await upstream.goDown()
    expect(await echo()).toBe('ERR_UPSTREAM_UNAVAILABLE')
    expect(await told(id)).toEqual(isDown)
    expect(await echo()).toBe('ERR_UPSTREAM_UNAVAILABLE')
    expect(await told(id)).toEqual(isDown)
    await upstream.comeBack()
    await expect.poll(echo, { timeout: 20_000 }).toBe('hello')
    expect(await told(id)).toEqual(isUp)
  })
})

describe('a server behind a proxy', () => {
  it('is an error while the proxy cannot reach it', async () => {
    await using upstream = await startMcpUpstream()
    const id = await deployed(upstream)
    expect(await echo()).toBe('hello')
    upstream.failWith(503)
    expect(await echo()).toBe('ERR_UPSTREAM_UNAVAILABLE')
    expect(await told(id)).toEqual(isDown)
    upstream.failWith(undefined)
    await expect.poll(echo, { timeout: 20_000 }).toBe('hello')
    expect(await told(id)).toEqual(isUp)
  })

  it('is no error when it refuses one request', async () => {
    await using upstream = await startMcpUpstream()
    const id = await deployed(upstream)
    expect(await echo()).toBe('hello')
    expect((await app.call('up__fail')).isError).toBe(true)
    expect(await told(id)).toEqual(isUp)
  })
})
