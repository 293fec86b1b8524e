import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { ToolCaller } from '../../src/tools/runtime/tool-host.ts'
import { answering } from '../support/answering.ts'
import { openTestApp, type TestApp } from '../support/app.ts'
import { createLinePeer } from '../support/line-peer.ts'

type Asked = { id?: number; method: string; params?: { cursor?: string } }
type Deployed = { id: string; catalogId: string; status: string; error: string | null; toolCount: number }

/** A server that lists what it likes. */
async function startLister(list: (cursor: string | undefined) => object): Promise<AsyncDisposable & { url: string }> {
  const server = createServer(
    answering(async (req, res) => {
      if (req.method !== 'POST') return void res.writeHead(405).end()
      const { id, method, params } = (await json(req)) as Asked
      if (id === undefined) return void res.writeHead(202).end()
      const info = {
        protocolVersion: '2025-06-18',
        capabilities: { tools: {} },
        serverInfo: { name: 'x', version: '1' },
      }
      const answers: Record<string, () => object> = { initialize: () => info, 'tools/list': () => list(params?.cursor) }
      const result = answers[method]?.()
      const answer = result === undefined ? { error: { code: -32601, message: 'no' } } : { result }
      res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ jsonrpc: '2.0', id, ...answer }))
    }),
  )
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

const tool = (name: string, more: object = {}) => ({ name, inputSchema: { type: 'object' }, ...more })

let app: TestApp
beforeEach(async () => {
  app = await openTestApp({ config: { 'web.allow_private_addresses': ['127.0.0.1'] } })
})
afterEach(() => app[Symbol.asyncDispose]())

async function deployed(serverUrl: string): Promise<Deployed> {
  const { id } = await app.ask<{ id: string }>('create_mcp_server', { name: 'Hostile', serverUrl })
  return await app.ask<Deployed>('deploy_mcp_server', { catalogId: id })
}

describe('a hostile MCP server', () => {
  it('keeps its useful tools when it lists one twice and one too large, and its log says what is left out', async () => {
    const list = () => ({
      tools: [tool('a'), tool('b', { description: 'first' }), tool('b'), tool('c', { title: 'x'.repeat(200_000) })],
    })
    await using server = await startLister(list)
    const { id, ...rest } = await deployed(server.url)
    expect(rest).toMatchObject({ status: 'success', error: null, toolCount: 2 })
    const { lines } = await app.ask<{ lines: string[] }>('get_mcp_server_logs', { serverId: id })
    expect(lines.filter((line) => line.includes('a tool is left out')).length).toBe(2)
  })

  it('keeps its tools when it cut a text off within a character', async () => {
    const half = { type: 'object', properties: { a: { type: 'string', description: 'Cut off \ud83d' } } }
    const list = () => ({
      tools: [
        tool('a', { inputSchema: half }),
        tool('b', { title: 'Half \ud83d', description: 'Zero \u0000' }),
        tool('c\ud83d'),
      ],
    })
    await using server = await startLister(list)
    const { id, catalogId, ...rest } = await deployed(server.url)
    expect(rest).toMatchObject({ status: 'success', error: null, toolCount: 2 })
    const { lines } = await app.ask<{ lines: string[] }>('get_mcp_server_logs', { serverId: id })
    expect(lines.filter((line) => line.includes('cannot be stored')).length).toBe(1)
    expect(await app.ask('deploy_mcp_server', { catalogId })).toMatchObject({ status: 'success', toolCount: 2 })
    expect(app.warnings).toEqual([])
  })

  it('is told that it lists more tools than can be used', async () => {
    await using server = await startLister(() => ({
      tools: Array.from({ length: 1_200 }, (_, index) => tool(`t${index}`)),
    }))
    const { id, catalogId, ...rest } = await deployed(server.url)
    const error = expect.stringContaining('lists 1200 tools, and only the first 1000')
    expect(rest).toMatchObject({ status: 'success', toolCount: 1_000, error, message: error })
    const { lines } = await app.ask<{ lines: string[] }>('get_mcp_server_logs', { serverId: id })
    expect(lines.filter((line) => line.includes('lists 1200 tools')).length).toBe(1)
    expect(await app.ask('get_mcp_server_tools', { mcpServerId: catalogId })).toMatchObject({ problems: [{ error }] })
  })

  it('cannot make a script of the link on which a person signs in', async () => {
    await using server = await startLister(() => ({ tools: [tool('a')] }))
    const script = 'javascript:alert(1)'
    const oauthConfig = { client_id: 'c', authorization_endpoint: script, token_endpoint: server.url }
    const args = { name: 'Scripted', serverUrl: server.url, oauthConfig }
    const { id } = await app.ask<{ id: string }>('create_mcp_server', args)
    const { id: serverId } = await app.ask<Deployed>('deploy_mcp_server', { catalogId: id })
    const refusal = await app.refusal('authorize_mcp_server', { serverId })
    expect(refusal).toMatchObject({ code: 'ERR_UPSTREAM_UNAUTHORIZED', message: expect.stringContaining('http') })
  })

  it('does not make a list short without a word', async () => {
    const server = await startLister(() => ({ tools: [tool('a')] }))
    await server[Symbol.asyncDispose]()
    expect(await deployed(server.url)).toMatchObject({ status: 'error' })
    const listOf = async (caller: Partial<ToolCaller>) => {
      const peer = createLinePeer({ host: app.app.host, caller })
      const { result } = await peer.request('tools/list', {})
      peer.endInput()
      await peer.session.closed
      return result!['_meta']
    }
    const told = [{ server: 'hostile', code: 'ERR_UPSTREAM_UNAVAILABLE', message: expect.any(String) }]
    expect(await listOf({ exposure: 'full' })).toEqual({ 'castellan/unreachable': told })
    // Nobody else is told of a server that is deployed for one person.
    const { principal } = await app.keyCaller({ role: 'editor' })
    expect(await listOf({ exposure: 'full', principal })).toBeUndefined()
    // Where no tools of other servers are listed, none is missing.
    expect(await listOf({ exposure: ['ledger'] })).toBeUndefined()
  })

  it('does not list for ever', async () => {
    let pages = 0
    await using server = await startLister(() => ({ tools: [tool(`t${++pages}`)], nextCursor: `c${pages}` }))
    expect(await deployed(server.url)).toMatchObject({ status: 'error' })
    expect(pages).toBeLessThan(50)
  })
})
