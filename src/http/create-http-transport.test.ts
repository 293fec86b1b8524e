import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  bearer,
  type HttpTransportApp,
  jsonType,
  mcpHeaders,
  openHttpTransportApp,
  post,
  rawExchange,
  type ServedTransport,
  send,
  sendRaw,
} from '../../test/support/http-transport-peer.ts'
import { limits } from '../contract/limits.ts'

let peer: HttpTransportApp
let served: ServedTransport
let keyed: ServedTransport
let readerKey: string

beforeAll(async () => {
  peer = await openHttpTransportApp()
  served = await peer.serve()
  keyed = await peer.serve({ requireKeys: true })
  readerKey = await peer.createKey({ name: 'reader', scopes: ['task:read'] })
})
afterAll(() => peer.close())

const restNames = (): string[] =>
  peer.app.catalog.tools
    .filter(({ definition }) => definition.transports?.includes('rest') !== false)
    .map(({ name }) => name)

describe('calling a tool', () => {
  it('answers with its JSON and the documented status', async () => {
    const created = await post(served, 'task_create', { title: 'One', project: 'rest' })
    expect([created.status, created.body['status']]).toEqual([200, 'backlog'])
    const task_id = created.body['task_id']
    const thought = await post(served, 'thought_record', { task_id, type: 'decision', content: 'x' })
    expect(thought.status).toBe(201)
    expect((await post(served, 'archestra__thought_record', { task_id, type: 'risk', content: 'y' })).status).toBe(201)
    expect((await post(served, 'audit_session_start', { task_id, auditor_id: 'a', scope: 'shallow' })).status).toBe(201)
  })

  it.each([
    ['no_such_tool', {}, 404, 'ERR_UNKNOWN_TOOL'],
    ['task_get', { task_id: 'T-9999' }, 404, 'ERR_TASK_NOT_FOUND'],
    ['task_create', { titel: 'x' }, 400, 'ERR_INVALID_INPUT'],
    ['task_create', [], 400, 'ERR_INVALID_INPUT'],
    ['task_create', 'text', 400, 'ERR_INVALID_INPUT'],
    ['merkle_root', { session_id: 'A-9999' }, 404, 'ERR_SESSION_NOT_FOUND'],
  ])('answers %s %j with the status of its error', async (tool, args, status, code) => {
    const reply = await post(served, tool, args)
    expect([reply.status, reply.body.error?.code]).toEqual([status, code])
    expect(Object.keys(reply.body.error!)).toEqual(['code', 'message', 'details'])
  })

  it('says when to try again', async () => {
    const limited = await openHttpTransportApp({ 'rate_limits.owner.enabled': 'true' })
    try {
      const at = await limited.serve()
      const replies = await Promise.all(Array.from({ length: 30 }, () => post(at, 'server_ping', {})))
      const refused = replies.filter((reply) => reply.status === 429)
      expect(refused[0]?.body.error?.code).toBe('ERR_RATE_LIMITED')
      expect(Number(refused[0]!.headers.get('retry-after'))).toBeGreaterThanOrEqual(1)
    } finally {
      await limited.close()
    }
  })

  it('takes no body for no arguments, and names with percent signs', async () => {
    expect((await send(served, '/v1/tools/server_ping', { method: 'POST' })).status).toBe(200)
    expect((await send(served, '/v1/tools/server%5Fping', { method: 'POST' })).status).toBe(200)
    expect((await send(served, '/v1/tools/%E0%A4%A', { method: 'POST' })).status).toBe(400)
  })

  it('says where JSON goes wrong', async () => {
    const reply = await send(served, '/v1/tools/task_list', {
      method: 'POST',
      headers: jsonType,
      body: '{\n  "limit": 1,\n}',
    })
    expect([reply.status, reply.body.error?.code]).toEqual([400, 'ERR_INVALID_INPUT'])
    expect(reply.body.error?.details).toMatchObject({ line: 3, column: 1, position: 16 })
    expect(reply.body.error?.message).toContain('line 3, column 1')
  })

  it('refuses bytes that are not UTF-8', async () => {
    const body = new Uint8Array([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d])
    const reply = await send(served, '/v1/tools/task_list', { method: 'POST', headers: jsonType, body })
    expect([reply.status, reply.body.error?.code]).toEqual([400, 'ERR_INVALID_INPUT'])
  })

  it.each([
    [{ 'content-type': 'text/plain' }],
    [{ 'content-type': 'application/x-www-form-urlencoded' }],
    [{ 'content-type': 'application/json; charset=latin1' }],
    [{ 'content-type': 'application/jsonp' }],
    [{ 'content-type': 'application/json', 'content-encoding': 'gzip' }],
  ] as Record<string, string>[][])('refuses a body sent with %j', async (headers) => {
    const reply = await send(served, '/v1/tools/task_list', { method: 'POST', headers: { ...headers }, body: '{}' })
    expect([reply.status, reply.body.error?.code]).toEqual([415, 'ERR_MEDIA_TYPE_UNSUPPORTED'])
  })

  it('accepts a charset and a body without a type only if it is empty', async () => {
    const typed = { 'content-type': 'application/json; charset=UTF-8' }
    expect((await send(served, '/v1/tools/task_list', { method: 'POST', headers: typed, body: '{}' })).status).toBe(200)
    const lines = ['POST /v1/tools/task_list HTTP/1.1', 'Host: localhost', 'Content-Length: 2', 'Connection: close']
    const untyped = await rawExchange(served.port, `${lines.join('\r\n')}\r\n\r\n{}`)
    expect(untyped).toMatch(/^HTTP\/1\.1 415 /)
  })

  it('warns in a header, since the body is the answer', async () => {
    const reply = await post(served, 'run_tool', { tool_name: 'task_list', limit: 1 })
    expect(reply.status).toBe(200)
    expect(reply.headers.get('castellan-warning')).toMatch(/\w/)
  })
})

describe('bodies that are too large', () => {
  const large = JSON.stringify({ title: 'x'.repeat(200_000), project: 'p' })

  it.each(['/v1/tools/task_create', '/mcp'])('are refused on %s before they are read', async (path) => {
    const reply = await send(served, path, { method: 'POST', headers: mcpHeaders, body: large })
    expect([reply.status, reply.body.error?.code]).toEqual([413, 'ERR_TOO_LARGE'])
    expect(reply.headers.get('connection')).toBe('close')
  })

  it('are refused while they arrive in chunks', async () => {
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        for (let at = 0; at < 300; at++) controller.enqueue(new Uint8Array(1_000).fill(0x20))
        controller.close()
      },
    })
    const init = { method: 'POST', headers: jsonType, body, duplex: 'half' } as RequestInit
    const reply = await send(served, '/v1/tools/task_create', init)
    expect([reply.status, reply.body.error?.code]).toEqual([413, 'ERR_TOO_LARGE'])
  })

  it('are refused with the reason for a caller that has no key, however much comes', async () => {
    const body = JSON.stringify({ title: 'x'.repeat(90_000), project: 'p' })
    const reply = await send(keyed, '/v1/tools/task_create', { method: 'POST', headers: jsonType, body })
    expect(reply.status).toBe(401)
  })
})

describe('routes', () => {
  it('tells its health to anyone, and little else', async () => {
    const reply = await send(served, '/health')
    expect(reply.status).toBe(200)
    expect(reply.body).toEqual({ status: 'ok', version: '1.2.3', mode: 'FULL' })
  })

  it.each([
    [{ status: 'degraded', mode: 'FULL', db: { open: true } } as const, 200],
    [{ status: 'degraded', mode: 'FULL', db: { open: false } } as const, 503],
    [{ status: 'ok', mode: 'MINIMAL', db: { open: false } } as const, 200],
  ])('tells %j with %i', async (facts, status) => {
    const at = await peer.serve({ health: async () => facts })
    const reply = await send(at, '/health')
    expect([reply.status, reply.body['status']]).toEqual([status, facts.status])
  })

  it('is not well when it cannot tell', async () => {
    const at = await peer.serve({ health: () => Promise.reject(new Error('no store')) })
    expect((await send(at, '/health')).status).toBe(503)
  })

  it('is alive as long as it answers, whatever the state', async () => {
    const at = await peer.serve({ health: () => Promise.reject(new Error('no store')), requireKeys: true })
    const reply = await send(at, '/health/live')
    expect([reply.status, reply.body]).toEqual([200, { status: 'ok', version: '1.2.3' }])
  })

  it.each([
    [{ status: 'ok', mode: 'FULL', db: { open: true } } as const, 200, 'ready'],
    [{ status: 'degraded', mode: 'FULL', db: { open: true } } as const, 200, 'degraded'],
    [{ status: 'degraded', mode: 'FULL', db: { open: false } } as const, 503, 'unavailable'],
    [{ status: 'ok', mode: 'MINIMAL', db: { open: false } } as const, 200, 'ready'],
  ])('is ready or not: %j with %i', async (facts, status, word) => {
    const at = await peer.serve({ health: async () => facts, requireKeys: true })
    const reply = await send(at, '/health/ready')
    expect([reply.status, reply.body]).toEqual([status, { status: word, version: '1.2.3', mode: facts.mode }])
  })

  it('is not ready when it cannot tell', async () => {
    const at = await peer.serve({ health: () => Promise.reject(new Error('no store')) })
    const reply = await send(at, '/health/ready')
    expect([reply.status, reply.body['status']]).toEqual([503, 'unavailable'])
  })

  it('lists the tools for any caller', async () => {
    const names = async (path: string, headers = {}) => {
      const { body } = await send(served, path, { headers })
      return (body['tools'] as { name: string }[]).map((tool) => tool.name)
    }
    expect(await names('/v1/tools')).toContain('search_tools')
    expect(await names('/v1/tools')).not.toContain('merkle_root')
    expect(await names('/v1/tools?tools=full')).toEqual(restNames())
    expect(await names('/v1/tools?tools=full', bearer(readerKey))).not.toContain('task_create')
    expect(await names('/v1/tools?tools=server')).toEqual(expect.arrayContaining(['server_ping', 'server_health']))
  })

  it('publishes an OpenAPI document with every tool', async () => {
    const { body } = await send(served, '/openapi.json')
    const paths = Object.keys(body['paths'] as object)
    expect(paths).toEqual(expect.arrayContaining(restNames().map((name) => `/v1/tools/${name}`)))
  })

  it('says what it is, to people and to terminals', async () => {
    const text = await send(served, '/')
    expect(text.headers.get('content-type')).toContain('text/plain')
    expect(text.text).toContain(`${served.url}/mcp`)
    const html = await send(served, '/', { headers: { accept: 'text/html' } })
    expect(html.headers.get('content-type')).toContain('text/html')
    expect(html.headers.get('content-security-policy')).toContain("default-src 'none'")
    const odd = await sendRaw(keyed, ['GET / HTTP/1.1', 'Host: "><script>', 'Accept: text/html'])
    expect(odd.text).not.toContain('"><script>')
  })

  it.each(['/', '/health', '/health/live', '/health/ready', '/openapi.json', '/v1/tools'])(
    'answers HEAD %s like GET, without the body',
    async (path) => {
      const [head, get] = [await send(served, path, { method: 'HEAD' }), await send(served, path)]
      expect([head.status, head.text]).toEqual([200, ''])
      expect(head.headers.get('content-length')).toBe(String(Buffer.byteLength(get.text)))
    },
  )

  it.each(['/nowhere', '/mcp/', '/mcpx', '/v1/tools/', '/v1/tools/a/b', '/health/', '/..%2fhealth', '//health'])(
    'has nothing at %s',
    async (path) => {
      const reply = await send(served, path)
      expect([reply.status, reply.body.error?.code]).toEqual([404, 'ERR_ROUTE_NOT_FOUND'])
    },
  )

  it('shows a refusal to a browser as a page, and to a program as JSON', async () => {
    const browser = { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' }
    for (const [at, path, status] of [
      [served, '/nowhere', 404],
      [served, '/v1/tools/task_list', 405],
      [served, '/mcp/none', 404],
      [keyed, '/v1/tools', 401],
    ] as const) {
      const page = await send(at, path, { headers: browser })
      expect([path, page.status, page.headers.get('content-type')]).toEqual([path, status, 'text/html; charset=utf-8'])
      expect(page.text).toMatch(/<h1>.+<\/h1>/)
      expect(page.headers.get('content-security-policy')).toContain("default-src 'none'")
      for (const accept of ['*/*', 'application/json', 'application/json, text/html']) {
        const json = await send(at, path, { headers: { accept } })
        expect([path, accept, json.status, typeof json.body.error?.code]).toEqual([path, accept, status, 'string'])
      }
    }
    expect((await send(served, '/nowhere', { method: 'POST', headers: browser })).body.error?.code).toBe(
      'ERR_ROUTE_NOT_FOUND',
    )
  })

  it('does not follow an absolute address', async () => {
    expect((await sendRaw(served, ['GET http://evil.example/health HTTP/1.1', 'Host: localhost'])).status).toBe(404)
  })

  it.each([
    ['POST', '/health', 'GET, HEAD, OPTIONS'],
    ['POST', '/health/ready', 'GET, HEAD, OPTIONS'],
    ['DELETE', '/v1/tools', 'GET, HEAD, OPTIONS'],
    ['GET', '/v1/tools/task_list', 'POST, OPTIONS'],
    ['PUT', '/', 'GET, HEAD, OPTIONS'],
  ])('does not take %s %s', async (method, path, allow) => {
    const reply = await send(served, path, { method })
    expect([reply.status, reply.body.error?.code]).toEqual([405, 'ERR_METHOD_NOT_ALLOWED'])
    expect(reply.headers.get('allow')).toBe(allow)
    expect((await send(served, path, { method: 'OPTIONS' })).headers.get('allow')).toBe(allow)
  })
})

describe('connections', () => {
  it('serves many requests on one, refusals among them', async () => {
    const one = (line: string, body = '') =>
      `${line} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`
    const requests =
      one('POST /v1/tools/server_ping', '{}') +
      one('POST /v1/tools/task_list', '{"a"') +
      one('POST /nowhere', '{}') +
      one('GET /health')
    const text = await rawExchange(served.port, requests, /"mode":"FULL"/)
    const statuses = [...text.matchAll(/HTTP\/1\.1 (\d+) /g)].map((match) => match[1])
    expect(statuses).toEqual(['200', '400', '404', '200'])
  })

  it('refuses headers beyond their bound', async () => {
    const reply = await sendRaw(served, ['GET /health HTTP/1.1', 'Host: localhost', `X-Long: ${'x'.repeat(20_000)}`])
    expect(reply.status).toBe(431)
  })

  it('has bounds for slow clients', () => {
    const { server } = served.transport
    expect([server.headersTimeout, server.requestTimeout, server.keepAliveTimeout]).toEqual([
      limits.httpHeadersTimeoutMs,
      limits.httpRequestTimeoutMs,
      limits.httpKeepAliveMs,
    ])
    expect(server.headersTimeout).toBeGreaterThan(0)
  })

  it('refuses to listen where others could come without a key', async () => {
    for (const host of ['0.0.0.0', '::', '192.0.2.1', 'example.com']) {
      await expect(peer.transport().listen({ host, port: 0 })).rejects.toMatchObject({ code: 'ERR_CONFIG_INVALID' })
    }
    const open = await peer.transport({ requireKeys: true }).listen({ host: '0.0.0.0', port: 0 })
    expect((await fetch(`http://127.0.0.1:${open.port}/v1/tools`)).status).toBe(401)
  })

  it('says which port is taken', async () => {
    const taken = peer.transport().listen({ host: '127.0.0.1', port: served.port })
    await expect(taken).rejects.toMatchObject({ code: 'ERR_INIT_FAILED', message: expect.stringContaining('--port') })
  })
})
