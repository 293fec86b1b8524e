import { createServer, request as httpRequest, type IncomingMessage, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { type Message, modernMeta } from '../../test/support/line-peer.ts'
import { createSampleHost, type SampleHost } from '../../test/support/sample-host.ts'
import { limits } from '../contract/limits.ts'
import { rightsOf } from '../contract/permissions.ts'
import { localOwner, type Principal } from '../contract/principal.ts'
import { silentLogger } from '../kernel/logger.ts'
import { createMcpTransport, type McpTransport } from './create-mcp-transport.ts'

const other: Principal = {
  ...localOwner,
  kind: 'key',
  actor: 'other',
  keyId: 'key_2',
  ...rightsOf('member'),
  tier: 'user',
}
const accept = 'application/json, text/event-stream'
const jsonHeaders = { 'content-type': 'application/json', accept }

type Reply = Readonly<{ status: number; headers: Headers; messages: Message[] }>
type Peer = Readonly<{
  transport: McpTransport
  host: SampleHost
  url: string
  clock: { ms: number }
  send(body: unknown, headers?: Record<string, string>, path?: string): Promise<Reply>
  openSession(headers?: Record<string, string>): Promise<Record<string, string>>
}>

const servers: Server[] = []
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections()
    server.close()
  }
})

const principalOf = (req: IncomingMessage): Principal =>
  req.headers['x-test-principal'] === 'other' ? other : localOwner

async function createPeer(): Promise<Peer> {
  const host = createSampleHost()
  const clock = { ms: 0 }
  const transport = createMcpTransport({
    host,
    version: '1.2.3',
    logger: silentLogger,
    clock: { nowMs: () => clock.ms, monotonicMs: () => clock.ms },
  })
  const server = createServer((req, res) => transport.handleHttp(req, res, { principal: principalOf(req) }))
  servers.push(server)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`
  const send: Peer['send'] = async (body, headers = {}, path = '') => {
    const response = await fetch(url + path, {
      method: 'POST',
      headers: { ...jsonHeaders, ...headers },
      body: typeof body === 'string' ? body : JSON.stringify(body),
    })
    return { status: response.status, headers: response.headers, messages: messagesOf(await response.text()) }
  }
  return {
    transport,
    host,
    url,
    clock,
    send,
    async openSession(headers = {}) {
      const opened = await send(initialize, headers)
      const session = {
        'mcp-session-id': opened.headers.get('mcp-session-id')!,
        'mcp-protocol-version': '2025-11-25',
        ...headers,
      }
      await send({ jsonrpc: '2.0', method: 'notifications/initialized' }, session)
      return session
    },
  }
}

const messagesOf = (text: string): Message[] =>
  text.startsWith('{') || text.startsWith('[')
    ? [JSON.parse(text) as Message]
    : [...text.matchAll(/^data: (.+)$/gm)].map((match) => JSON.parse(match[1]!) as Message)

const initialize = {
  jsonrpc: '2.0',
  id: 0,
  method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'test', version: '1' } },
}
const toolCall = (name: string, id: string | number = 1, more: object = {}) => ({
  jsonrpc: '2.0',
  id,
  method: 'tools/call',
  params: { name, arguments: {}, ...more },
})
const modernHeaders = (name: string) => ({
  'mcp-protocol-version': '2026-07-28',
  'mcp-method': 'tools/call',
  'mcp-name': name,
})
const modernCall = (name: string, meta: object = {}) => toolCall(name, 1, { _meta: { ...modernMeta, ...meta } })

/** Opens a request and leaves it open, so that the test can drop it. */
function openRequest(url: string, headers: Record<string, string>, body?: unknown, method = 'POST') {
  const req = httpRequest(url, { method, headers: { ...jsonHeaders, ...headers } })
  const response = new Promise<IncomingMessage>((resolve) => req.once('response', resolve))
  req.on('error', () => {})
  req.end(body === undefined ? undefined : JSON.stringify(body))
  return { req, response }
}

describe('a stateless request', () => {
  it('calls a tool and gets one JSON body', async () => {
    const peer = await createPeer()
    const reply = await peer.send(modernCall('ping'), modernHeaders('ping'))
    expect(reply.status).toBe(200)
    expect(reply.headers.get('content-type')).toBe('application/json')
    expect(reply.headers.get('cache-control')).toBe('no-store')
    expect(reply.headers.get('x-content-type-options')).toBe('nosniff')
    expect(reply.messages[0]!.result).toMatchObject({ resultType: 'complete', structuredContent: { pong: true } })
  })

  it.each([
    ['a header that names another tool', { ...modernHeaders('echo') }, -32020],
    ['no Mcp-Name header', { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/call' }, -32020],
    ['a header that names another method', { ...modernHeaders('ping'), 'mcp-method': 'tools/list' }, -32020],
    ['no version header', { 'mcp-method': 'tools/call', 'mcp-name': 'ping' }, -32020],
    ['another version in the header', { ...modernHeaders('ping'), 'mcp-protocol-version': '2025-11-25' }, -32020],
  ])('is refused with %s', async (_, headers, code) => {
    const peer = await createPeer()
    const reply = await peer.send(modernCall('ping'), headers)
    expect([reply.status, reply.messages[0]!.error?.code]).toEqual([400, code])
    expect(peer.host.callers).toHaveLength(0)
  })

  it('accepts a tool name in its encoded form', async () => {
    const peer = await createPeer()
    const encoded = `=?base64?${Buffer.from('ping').toString('base64')}?=`
    const reply = await peer.send(modernCall('ping'), { ...modernHeaders('ping'), 'mcp-name': encoded })
    expect(reply.messages[0]!.result).toHaveProperty('structuredContent.pong', true)
  })

  it('streams progress only when there is any', async () => {
    const peer = await createPeer()
    const streamed = await peer.send(modernCall('count', { progressToken: 7 }), modernHeaders('count'))
    expect(streamed.headers.get('content-type')).toBe('text/event-stream')
    expect(streamed.messages.map((message) => message.params?.['progress'] ?? 'answer')).toEqual([1, 2, 3, 'answer'])
    const quiet = await peer.send(modernCall('ping', { progressToken: 7 }), modernHeaders('ping'))
    expect(quiet.headers.get('content-type')).toBe('application/json')
  })

  it('is cancelled when the client hangs up', async () => {
    const peer = await createPeer()
    const { req } = openRequest(peer.url, modernHeaders('wait'), modernCall('wait'))
    await peer.host.whenWaiting(1)
    const aborted = new Promise((resolve) => peer.host.waiting[0]!.signal.addEventListener('abort', resolve))
    req.destroy()
    await aborted
  })

  it('may subscribe to list changes and hears of the end', async () => {
    const peer = await createPeer()
    const body = {
      jsonrpc: '2.0',
      id: 'sub',
      method: 'subscriptions/listen',
      params: { _meta: modernMeta, notifications: { toolsListChanged: true } },
    }
    const headers = { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'subscriptions/listen' }
    const { response } = openRequest(peer.url, headers, body)
    const stream = await response
    let text = ''
    const methods = async (wanted: number): Promise<unknown[]> => {
      while (messagesOf(text).length < wanted) {
        text += await new Promise<string>((resolve) =>
          stream.once('data', (chunk: Buffer) => resolve(chunk.toString())),
        )
      }
      return messagesOf(text).map((message) => message.method ?? message.id)
    }
    await methods(1)
    peer.host.addTool('later')
    expect(await methods(2)).toEqual(['notifications/subscriptions/acknowledged', 'notifications/tools/list_changed'])
    const closing = peer.transport.close(0)
    expect((await methods(3)).at(-1)).toBe('sub')
    await closing
  })
})

describe('a session', () => {
  it('begins with initialize and carries calls', async () => {
    const peer = await createPeer()
    const session = await peer.openSession()
    expect(session['mcp-session-id']).toMatch(/^[\x21-\x7e]{20,}$/)
    const reply = await peer.send(toolCall('ping'), session)
    expect(reply.headers.get('content-type')).toBe('application/json')
    expect(reply.messages[0]!.result).toEqual({
      content: [{ type: 'text', text: '{"pong":true}' }],
      structuredContent: { pong: true },
    })
    const streamed = await peer.send(toolCall('count', 2, { _meta: { progressToken: 'p' } }), session)
    expect(streamed.messages.map((message) => message.params?.['progress'] ?? 'answer')).toEqual([1, 2, 3, 'answer'])
  })

  it('does not exist for anybody but its owner, and an unknown one looks the same', async () => {
    const peer = await createPeer()
    const session = await peer.openSession()
    const shape = ({ status, messages }: Reply) => ({ status, message: messages[0] })
    for (const body of [toolCall('ping'), { jsonrpc: '2.0', id: 1, method: 'tools/list' }]) {
      const foreign = await peer.send(body, { ...session, 'x-test-principal': 'other' })
      const unknown = await peer.send(body, { ...session, 'mcp-session-id': 'A'.repeat(32) })
      expect(foreign.status).toBe(404)
      expect(shape(foreign)).toEqual(shape(unknown))
    }
    for (const method of ['GET', 'DELETE']) {
      const headers = { ...session, accept, 'x-test-principal': 'other' }
      expect((await fetch(peer.url, { method, headers })).status).toBe(404)
    }
    expect((await peer.send(toolCall('ping'), session)).status).toBe(200)
  })

  it('uses what its owner may do at the moment of the call', async () => {
    const peer = await createPeer()
    const session = await peer.openSession({ 'x-test-principal': 'other' })
    await peer.send(toolCall('ping'), session)
    expect(peer.host.callers.at(-1)!.principal).toEqual({ ...other, mcpSessionId: expect.any(String) })
    expect(peer.host.callers.at(-1)!.transport).toBe('http')
  })

  it('is needed for requests of the older revisions', async () => {
    const peer = await createPeer()
    expect((await peer.send(toolCall('ping'))).status).toBe(400)
  })

  it.each([
    ['no params', undefined, 'params: missing'],
    ['no client', { protocolVersion: '2025-11-25', capabilities: {} }, 'params.clientInfo: missing'],
    ['a revision that is no text', { ...initialize.params, protocolVersion: 7 }, 'params.protocolVersion: '],
    ['a bad capability', { ...initialize.params, capabilities: { roots: 3 } }, 'params.capabilities.roots: '],
  ])('says what is wrong with an initialize with %s', async (_, params, reason) => {
    const peer = await createPeer()
    const { status, messages } = await peer.send({ ...initialize, id: 'i', params })
    expect(status).toBe(400)
    expect(messages[0]).toMatchObject({ id: 'i', error: { code: -32602, message: expect.stringContaining(reason) } })
    expect(messages[0]!.error!.message).toMatch(/^Invalid params of initialize: [^{[]+$/)
  })

  it('refuses an unknown revision in the header and a client that takes no events', async () => {
    const peer = await createPeer()
    const session = await peer.openSession()
    expect((await peer.send(toolCall('ping'), { ...session, 'mcp-protocol-version': '1999-01-01' })).status).toBe(400)
    expect((await peer.send(toolCall('ping'), { ...session, accept: 'application/json' })).status).toBe(406)
    expect(peer.host.callers).toHaveLength(0)
  })

  it('cancels a call by notification, and by a hang-up as some clients do', async () => {
    const peer = await createPeer()
    const session = await peer.openSession()
    const dropped = openRequest(peer.url, session, toolCall('wait', 'dropped'))
    await peer.host.whenWaiting(1)
    const aborted = new Promise((resolve) => peer.host.waiting[0]!.signal.addEventListener('abort', resolve))
    dropped.req.destroy()
    await aborted
    const reply = peer.send(toolCall('wait', 'cancelled'), session)
    await peer.host.whenWaiting(2)
    const note = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 'cancelled' } }
    expect((await peer.send(note, session)).status).toBe(202)
    expect((await reply).messages[0]!.result?.['isError']).toBe(true)
    expect(peer.host.waiting.map(({ signal }) => signal.aborted)).toEqual([true, true])
  })

  it('of a revision without structured content gets none, and no output schemas', async () => {
    const peer = await createPeer()
    const params = { ...initialize.params, protocolVersion: '2024-11-05' }
    const opened = await peer.send({ ...initialize, params })
    const session = { 'mcp-session-id': opened.headers.get('mcp-session-id')! }
    const [called] = (await peer.send(toolCall('ping'), session)).messages
    expect(called!.result).toEqual({ content: [{ type: 'text', text: '{"pong":true}' }] })
    const [listed] = (await peer.send({ jsonrpc: '2.0', id: 2, method: 'tools/list' }, session)).messages
    expect(JSON.stringify(listed)).toContain('"name":"ping"')
    expect(JSON.stringify(listed)).not.toContain('outputSchema')
  })

  it('has a stream for list changes', async () => {
    const peer = await createPeer()
    const session = await peer.openSession()
    const { response } = openRequest(peer.url, { ...session, accept: 'text/event-stream' }, undefined, 'GET')
    const stream = await response
    const first = new Promise<string>((resolve) => stream.once('data', (chunk: Buffer) => resolve(chunk.toString())))
    peer.host.addTool('later')
    expect(messagesOf(await first)[0]!.method).toBe('notifications/tools/list_changed')
  })
})

describe('the end of a session', () => {
  it('comes with DELETE, and its calls end with it', async () => {
    const peer = await createPeer()
    const session = await peer.openSession()
    const reply = peer.send(toolCall('wait'), session)
    await peer.host.whenWaiting(1)
    expect((await fetch(peer.url, { method: 'DELETE', headers: session })).status).toBe(200)
    expect((await reply).messages[0]!.result?.['isError']).toBe(true)
    expect((await peer.send(toolCall('ping'), session)).status).toBe(404)
  })

  it('comes when it was idle for too long, but not while a stream is open', async () => {
    const peer = await createPeer()
    const [idle, listening] = [await peer.openSession(), await peer.openSession()]
    const { req, response } = openRequest(peer.url, { ...listening, accept: 'text/event-stream' }, undefined, 'GET')
    await response
    peer.clock.ms += limits.httpSessionIdleMs + 1
    expect((await peer.send(toolCall('ping'), idle)).status).toBe(404)
    expect((await peer.send(toolCall('ping'), listening)).status).toBe(200)
    req.destroy()
  })
})

describe('the address', () => {
  it('chooses what is listed', async () => {
    const peer = await createPeer()
    const list = { jsonrpc: '2.0', id: 1, method: 'tools/list', params: { _meta: modernMeta } }
    const headers = { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/list' }
    const { messages } = await peer.send(list, headers, '?tools=ping,echo')
    expect((messages[0]!.result!['tools'] as { name: string }[]).map((tool) => tool.name)).toEqual(['ping', 'echo'])
  })

  it.each([
    ['a body that is not JSON', 'POST', jsonHeaders, '{', 400],
    ['a body that is not JSON-RPC', 'POST', jsonHeaders, '{"hello":1}', 400],
    ['another content type', 'POST', { ...jsonHeaders, 'content-type': 'text/plain' }, '{}', 415],
    ['another method', 'PUT', jsonHeaders, '{}', 405],
  ])('refuses %s', async (_, method, headers, body, status) => {
    const peer = await createPeer()
    const response = await fetch(peer.url, { method, headers, body })
    expect(response.status).toBe(status)
    expect(await response.json()).toMatchObject({ jsonrpc: '2.0', error: { code: expect.any(Number) } })
  })

  it('refuses a body over the limit, announced or not', async () => {
    const peer = await createPeer()
    const body = JSON.stringify(toolCall('echo', 1, { arguments: { text: 'x'.repeat(limits.messageBytesMax) } }))
    expect((await peer.send(body)).status).toBe(413)
    const chunked = httpRequest(peer.url, {
      method: 'POST',
      headers: { ...jsonHeaders, 'transfer-encoding': 'chunked' },
    })
    const status = new Promise((resolve) => chunked.once('response', (res) => resolve(res.statusCode)))
    chunked.on('error', () => {})
    chunked.end(body)
    expect(await status).toBe(413)
  })
})

describe('closing the transport', () => {
  it('fails what is under way after the grace and refuses what comes later', async () => {
    const peer = await createPeer()
    const session = await peer.openSession()
    const replies = [peer.send(toolCall('wait'), session), peer.send(modernCall('wait'), modernHeaders('wait'))]
    await peer.host.whenWaiting(2)
    await peer.transport.close(0)
    for (const { messages } of await Promise.all(replies)) {
      expect(JSON.stringify(messages[0]!.result)).toContain('ERR_SHUTTING_DOWN')
    }
    expect((await peer.send(initialize)).status).toBe(503)
  })
})
