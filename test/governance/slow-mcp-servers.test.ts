import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer, json } from 'node:stream/consumers'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { SSEServerTransport } from '@modelcontextprotocol/sdk/server/sse.js'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { movableClock, openTestApp, type TestApp } from '../support/app.ts'
import { startMcpUpstream } from '../support/mcp-upstream.ts'
import { startModernUpstream } from '../support/modern-upstream.ts'

/** Remote servers that do not answer the first request, which is of the newer revision. They have the whole start time. */
let app: TestApp
let server: Server | undefined
beforeEach(async () => {
  app = await openTestApp({ config: { 'web.allow_private_addresses': ['127.0.0.1'] } })
})
afterEach(async () => {
  await app[Symbol.asyncDispose]()
  server?.closeAllConnections()
  server?.close()
  server = undefined
})

async function listening(handle: (req: IncomingMessage, res: ServerResponse) => Promise<void>): Promise<string> {
  server = createServer((req, res) => void handle(req, res).catch(() => res.destroy()))
  await new Promise<void>((resolve) => server!.listen(0, '127.0.0.1', resolve))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

async function deployed(serverUrl: string) {
  const { id } = await app.ask<{ id: string }>('create_mcp_server', { name: 'Slow', serverUrl })
  return await app.ask('deploy_mcp_server', { catalogId: id })
}

type Asked = { id?: number; method: string }

it('a server that has not answered when the first question is given up is asked in the older revision', async () => {
  const initializeResult = {
    protocolVersion: '2025-06-18',
    capabilities: { tools: {} },
    serverInfo: { name: 's', version: '1' },
  }
  const methods: string[] = []
  const url = await listening(async (req, res) => {
    if (req.method !== 'POST') return void res.writeHead(405).end()
    const { id, method } = (await json(req)) as Asked
    methods.push(method)
    if (method === 'server/discover') return
    if (id === undefined) return void res.writeHead(202).end()
    const result =
      method === 'initialize' ? initializeResult : { tools: [{ name: 't', inputSchema: { type: 'object' } }] }
    res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ jsonrpc: '2.0', id, result }))
  })
  expect(await deployed(`${url}/mcp`)).toMatchObject({ status: 'success', error: null, toolCount: 1 })
  expect(methods).toContain('server/discover')
})

it('a server that knows only the newer revision is asked for it again', async () => {
  await using modern = await startModernUpstream()
  let isFirst = true
  const url = await listening(async (req, res) => {
    if (isFirst) {
      isFirst = false
      return
    }
    const body = await buffer(req)
    if (req.method !== 'POST' || body.includes('"initialize"')) return void res.writeHead(405).end()
    const headers = Object.entries(req.headers).filter(([name]) => !/^(host|connection|content-length)$/.test(name))
    const answer = await fetch(modern.url, {
      method: 'POST',
      headers: headers as [string, string][],
      body: new Uint8Array(body),
    })
    res.writeHead(answer.status, { 'content-type': answer.headers.get('content-type')! })
    for await (const chunk of answer.body!) res.write(chunk)
    res.end()
  })
  expect(await deployed(`${url}/mcp`)).toMatchObject({ status: 'success', error: null })
})

it('a server of the oldest transport that answers every request with its stream is deployed', async () => {
  const sessions = new Map<string, SSEServerTransport>()
  const url = await listening(async (req, res) => {
    const at = new URL(req.url!, 'http://server')
    if (at.pathname === '/messages') {
      await sessions.get(at.searchParams.get('sessionId')!)!.handlePostMessage(req, res, await json(req))
      return
    }
    const transport = new SSEServerTransport('/messages', res)
    sessions.set(transport.sessionId, transport)
    const made = new McpServer({ name: 'old', version: '1' })
    made.registerTool('t', { description: 'A tool.' }, async () => ({ content: [{ type: 'text', text: 'here' }] }))
    await made.connect(transport)
  })
  expect(await deployed(`${url}/sse`)).toMatchObject({ status: 'success', error: null, toolCount: 1 })
  expect((await app.call('slow__t')).isError).toBe(false)
})

it('a server that never answers is given up when its start time is over, and before that when the program ends', async () => {
  const config = { 'web.allow_private_addresses': ['127.0.0.1'], 'mcp_servers.start_timeout_secs': 6 }
  await using impatient = await openTestApp({ config })
  let streams = 0
  const serverUrl = await listening(async ({ method }) => void (method === 'GET' && streams++))
  const { id: catalogId } = await impatient.ask<{ id: string }>('create_mcp_server', { name: 'Silent', serverUrl })
  const error = expect.stringContaining('did not answer within 6 s of its start')
  expect(await impatient.ask('deploy_mcp_server', { catalogId })).toMatchObject({ status: 'error', error })
  expect(streams).toBe(1)
  const deploying = impatient.call('deploy_mcp_server', { catalogId })
  await expect.poll(() => streams, { timeout: 20_000 }).toBe(2)
  await impatient.stop()
  expect((await deploying).isError).toBe(false)
})

it('a deployment that takes longer than clients wait answers that it still starts, tells of itself, and goes on', async () => {
  const clock = movableClock()
  await using upstream = await startMcpUpstream()
  await using patient = await openTestApp({ clock, config: { 'web.allow_private_addresses': ['127.0.0.1'] } })
  const item = await patient.ask<{ id: string }>('create_mcp_server', { name: 'Late', serverUrl: upstream.url })
  const { held, release } = upstream.hold()
  const told = Promise.withResolvers<void>()
  const answer = patient.call('deploy_mcp_server', { catalogId: item.id }, undefined, {
    progress: () => told.resolve(),
  })
  await Promise.all([held, told.promise])
  clock.advance(45_000)
  expect(JSON.parse((await answer).json)).toMatchObject({
    status: 'discovering-tools',
    state: 'starting',
    message: expect.stringContaining('list_mcp_server_deployments'),
  })
  release()
  const listed = () => patient.ask<{ deployments: object[] }>('list_mcp_server_deployments')
  await expect
    .poll(async () => (await listed()).deployments[0], { timeout: 20_000 })
    .toMatchObject({ status: 'success' })
})
