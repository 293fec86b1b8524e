import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type HttpDoorApp, openHttpDoorApp, rawExchange, type ServedDoor } from '../../test/support/http-door-peer.ts'
import { limits } from '../contract/limits.ts'
import { createHttpDoor } from './create-http-door.ts'

type Body = { error?: { code: string; message: string; details: Record<string, unknown> } } & Record<string, unknown>

let peer: HttpDoorApp
let served: ServedDoor
let keyed: ServedDoor
let memberKey: string
let readerKey: string

beforeAll(async () => {
  peer = await openHttpDoorApp({ 'rate_limits.create.burst': '1000' })
  served = await peer.serve({ allowedHosts: ['castle.example'], allowedOrigins: ['https://console.example'] })
  keyed = await peer.serve({ requireKeys: true })
  memberKey = await peer.createKey({ name: 'member' })
  readerKey = await peer.createKey({ name: 'reader', scopes: ['task:read'] })
})
afterAll(() => peer.close())

const json = { 'content-type': 'application/json' }

async function send(path: string, init: RequestInit = {}, at: ServedDoor = served) {
  const response = await fetch(at.url + path, init)
  const text = await response.text()
  const isJson = response.headers.get('content-type') === 'application/json'
  return { status: response.status, headers: response.headers, text, body: (isJson ? JSON.parse(text) : {}) as Body }
}
const post = (tool: string, args: unknown, headers: Record<string, string> = {}, at: ServedDoor = served) =>
  send(`/v1/tools/${tool}`, { method: 'POST', headers: { ...json, ...headers }, body: JSON.stringify(args) }, at)

/** fetch sets Host itself; a raw request says what it likes. */
async function raw(lines: readonly string[], at: ServedDoor = served): Promise<{ status: number; text: string }> {
  const text = await rawExchange(at.port, `${[...lines, 'Connection: close'].join('\r\n')}\r\n\r\n`)
  return { status: Number(/^HTTP\/1\.1 (\d+)/.exec(text)?.[1]), text }
}
const bearer = (token: string) => ({ authorization: `Bearer ${token}` })
const initialize = JSON.stringify({
  jsonrpc: '2.0',
  id: 0,
  method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'test', version: '1' } },
})
const mcpHeaders = { ...json, accept: 'application/json, text/event-stream' }
const openSession = (headers: Record<string, string> = {}, at: ServedDoor = served, path = '/mcp') =>
  send(path, { method: 'POST', headers: { ...mcpHeaders, ...headers }, body: initialize }, at)

describe('Host and Origin', () => {
  const paths = ['GET /', 'GET /health', 'GET /openapi.json', 'GET /v1/tools', 'GET /mcp', 'POST /mcp', 'GET /nowhere']

  it.each(paths)('refuses a foreign Host on %s', async (line) => {
    const reply = await raw([`${line} HTTP/1.1`, 'Host: evil.example:80'])
    expect(reply.status).toBe(403)
    expect(reply.text).toContain('"ERR_HOST_REFUSED"')
  })

  it.each(paths)('refuses a foreign Origin on %s, and gives it no CORS header', async (line) => {
    const reply = await raw([`${line} HTTP/1.1`, 'Host: localhost', 'Origin: https://evil.example'])
    expect(reply.status).toBe(403)
    expect(reply.text).toContain('"ERR_ORIGIN_REFUSED"')
    expect(reply.text.toLowerCase()).not.toContain('access-control-')
  })

  it.each(['localhost', 'LOCALHOST:1', '127.0.0.1', '[::1]:7433', 'castle.example', 'castle.example:8443'])(
    'answers to the Host %s',
    async (host) => {
      expect((await raw(['GET /health HTTP/1.1', `Host: ${host}`])).status).toBe(200)
    },
  )

  it.each([
    'localhost.evil.example',
    'evil.example#localhost',
    'user@localhost',
    'localhost:80:80',
    'localhost, evil.example',
    '127.0.0.1.evil.example',
    '0.0.0.0',
    '[::ffff:127.0.0.1]',
    'sub.castle.example',
    'castle.example.',
  ])('refuses the Host %s', async (host) => {
    expect((await raw(['GET /health HTTP/1.1', `Host: ${host}`])).status).toBe(403)
  })

  it('judges the first Host of two, and none at all', async () => {
    expect((await raw(['GET /health HTTP/1.1', 'Host: evil.example', 'Host: localhost'])).status).not.toBe(200)
    expect((await raw(['GET /health HTTP/1.0'])).status).toBe(403)
  })

  it.each(['http://localhost:3000', 'https://127.0.0.1', 'http://[::1]:5173', 'https://console.example'])(
    'allows the Origin %s and says so to the browser',
    async (origin) => {
      const reply = await send('/health', { headers: { origin } })
      expect(reply.status).toBe(200)
      expect(reply.headers.get('access-control-allow-origin')).toBe(origin)
      expect(reply.headers.get('access-control-expose-headers')).toContain('Mcp-Session-Id')
      expect(reply.headers.get('vary')).toContain('Origin')
    },
  )

  it.each([
    'null',
    'http://localhost.evil.example',
    'http://evil.example?localhost',
    'file://',
    'http://console.example',
  ])('refuses the Origin %s', async (origin) => {
    expect((await send('/health', { headers: { origin } })).status).toBe(403)
  })

  it('allows the page of the server itself', async () => {
    const own = await raw(['GET /health HTTP/1.1', 'Host: castle.example:1', 'Origin: https://castle.example:1'])
    expect(own.status).toBe(200)
  })

  it('gives no CORS header to a request without Origin', async () => {
    const { headers } = await send('/health')
    expect([...headers.keys()].filter((name) => name.startsWith('access-control-'))).toEqual([])
  })

  it('accepts any Host where keys are demanded and no names are configured', async () => {
    expect((await raw(['GET /health HTTP/1.1', 'Host: anything.example'], keyed)).status).toBe(200)
    const named = await peer.serve({ requireKeys: true, allowedHosts: ['castle.example'] })
    expect((await raw(['GET /health HTTP/1.1', 'Host: anything.example'], named)).status).toBe(403)
  })

  it('answers a preflight of an allowed origin, for /mcp and for tools', async () => {
    for (const [path, methods] of [
      ['/mcp', 'GET, POST, DELETE, OPTIONS'],
      ['/v1/tools/task_list', 'POST, OPTIONS'],
    ] as const) {
      const reply = await send(path, {
        method: 'OPTIONS',
        headers: {
          origin: 'https://console.example',
          'access-control-request-method': 'POST',
          'access-control-request-headers': 'authorization,mcp-session-id,mcp-param-x,x-evil',
        },
      })
      expect(reply.status).toBe(204)
      expect(reply.headers.get('access-control-allow-origin')).toBe('https://console.example')
      expect(reply.headers.get('access-control-allow-methods')).toBe(methods)
      expect(reply.headers.get('access-control-allow-headers')).toBe('authorization, mcp-session-id, mcp-param-x')
      expect(reply.headers.get('access-control-allow-credentials')).toBeNull()
    }
  })
})

describe('who asks', () => {
  it('is the owner on this machine', async () => {
    const { body } = await post('task_create', { title: 'Mine', project: 'p' })
    expect(body['created_by']).toBe('owner')
  })

  it.each([
    ['Authorization', (token: string) => bearer(token)],
    ['Authorization, in lower case', (token: string) => ({ authorization: `bearer ${token}` })],
    ['X-Api-Key', (token: string) => ({ 'x-api-key': token })],
    ['both, equal', (token: string) => ({ ...bearer(token), 'x-api-key': token })],
  ])('is who the key says: %s', async (_, headers) => {
    for (const at of [served, keyed]) {
      const { body } = await post('task_create', { title: 'Theirs', project: 'p' }, headers(memberKey), at)
      expect(body['created_by']).toBe('member')
    }
  })

  it.each([
    ['an unknown key', { authorization: `Bearer cst_00000000_${'A'.repeat(43)}` }],
    ['nonsense', { authorization: 'Bearer nonsense' }],
    ['an empty credential', { authorization: 'Bearer ' }],
    ['another scheme', { authorization: 'Basic b3duZXI6' }],
    ['a bad X-Api-Key', { 'x-api-key': 'nonsense' }],
    ['an empty X-Api-Key', { 'x-api-key': '' }],
    ['two that differ', { authorization: 'Bearer cst_a', 'x-api-key': 'cst_b' }],
  ])('is nobody with %s: never the owner', async (_, headers) => {
    for (const reply of [
      await post('server_ping', {}, headers),
      await send('/v1/tools', { headers }),
      await openSession(headers),
      await post('server_ping', {}, headers, keyed),
    ]) {
      expect([reply.status, reply.body.error?.code]).toEqual([401, 'ERR_UNAUTHENTICATED'])
      expect(reply.headers.get('www-authenticate')).toMatch(/^Bearer/)
    }
  })

  it('is nobody without a key where keys are demanded, though facts stay public', async () => {
    for (const reply of [
      await post('server_ping', {}, {}, keyed),
      await send('/v1/tools', {}, keyed),
      await openSession({}, keyed),
    ]) {
      expect(reply.status).toBe(401)
    }
    for (const path of ['/', '/health', '/openapi.json']) expect((await send(path, {}, keyed)).status).toBe(200)
  })

  it.each(['x-forwarded-for', 'x-real-ip', 'forwarded'])(
    'is not the owner behind a proxy that sends %s',
    async (name) => {
      expect((await post('server_ping', {}, { [name]: '127.0.0.1' })).status).toBe(401)
      expect((await post('server_ping', {}, { [name]: '10.0.0.1', ...bearer(memberKey) })).status).toBe(200)
    },
  )

  it('may do what the key may', async () => {
    const denied = await post('task_create', { title: 'No', project: 'p' }, bearer(readerKey))
    expect([denied.status, denied.body.error?.code]).toEqual([403, 'ERR_PERMISSION_DENIED'])
    expect((await post('task_list', {}, bearer(readerKey))).status).toBe(200)
  })

  it('cannot be told while the store does not open, and that is not a bad key', async () => {
    const broken = await peer.serve({ identity: () => Promise.reject(new Error('disk')) })
    const reply = await post('server_ping', {}, bearer(memberKey), broken)
    expect([reply.status, reply.body.error?.code]).toEqual([500, 'ERR_INTERNAL'])
    expect(reply.text).not.toContain('disk')
    const none = await peer.serve({ identity: async () => undefined })
    expect((await post('server_ping', {}, bearer(memberKey), none)).status).toBe(401)
  })
})

describe('/mcp', () => {
  it('reaches the MCP door, with the tools that the address asks for', async () => {
    const opened = await openSession({}, served, '/mcp?tools=server')
    expect(opened.status).toBe(200)
    const listed = await send('/mcp?tools=server', {
      method: 'POST',
      headers: { ...mcpHeaders, 'mcp-session-id': opened.headers.get('mcp-session-id')! },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' }),
    })
    expect(listed.text).toContain('server_ping')
    expect(listed.text).not.toContain('task_create')
  })

  it('knows the principal of a key', async () => {
    const opened = await openSession(bearer(memberKey))
    const headers = { ...mcpHeaders, 'mcp-session-id': opened.headers.get('mcp-session-id')! }
    const call = JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: { name: 'task_create', arguments: { title: 'By MCP', project: 'p' } },
    })
    const theirs = await send('/mcp', { method: 'POST', headers: { ...headers, ...bearer(memberKey) }, body: call })
    expect(theirs.text).toContain('"created_by":"member"')
    const stolen = await send('/mcp', { method: 'POST', headers, body: call })
    expect(stolen.status).toBe(404)
  })

  it('refuses an address that asks for tools there are not', async () => {
    const reply = await openSession({}, served, '/mcp?tools=servr')
    expect(reply.status).toBe(400)
    expect(reply.body.error?.message).toContain("Did you mean 'server'?")
    expect((await openSession({}, served, '/mcp?names=odd')).status).toBe(400)
  })

  it('lets a page read the session id', async () => {
    const reply = await openSession({ origin: 'http://localhost:6274' })
    expect(reply.headers.get('mcp-session-id')).not.toBeNull()
    expect(reply.headers.get('access-control-allow-origin')).toBe('http://localhost:6274')
  })
})

describe('calling a tool', () => {
  it('answers with its JSON and the documented status', async () => {
    const created = await post('task_create', { title: 'One', project: 'rest' })
    expect([created.status, created.body['status']]).toEqual([200, 'backlog'])
    const task_id = created.body['task_id']
    const thought = await post('thought_record', { task_id, type: 'decision', content: 'x' })
    expect(thought.status).toBe(201)
    expect((await post('archestra__thought_record', { task_id, type: 'risk', content: 'y' })).status).toBe(201)
    expect((await post('audit_session_start', { task_id, auditor_id: 'a', scope: 'shallow' })).status).toBe(201)
  })

  it.each([
    ['no_such_tool', {}, 404, 'ERR_UNKNOWN_TOOL'],
    ['task_get', { task_id: 'T-9999' }, 404, 'ERR_TASK_NOT_FOUND'],
    ['task_create', { titel: 'x' }, 400, 'ERR_INVALID_INPUT'],
    ['task_create', [], 400, 'ERR_INVALID_INPUT'],
    ['task_create', 'text', 400, 'ERR_INVALID_INPUT'],
    ['merkle_root', { session_id: 'A-9999' }, 404, 'ERR_SESSION_NOT_FOUND'],
  ])('answers %s %j with the status of its error', async (tool, args, status, code) => {
    const reply = await post(tool, args)
    expect([reply.status, reply.body.error?.code]).toEqual([status, code])
    expect(Object.keys(reply.body.error!)).toEqual(['code', 'message', 'details'])
  })

  it('says when to try again', async () => {
    const key = await peer.createKey({ name: 'hasty', role: 'admin' })
    const limited = await openHttpDoorApp({ 'rate_limits.owner.enabled': 'true' })
    try {
      const at = await limited.serve()
      const replies = await Promise.all(Array.from({ length: 30 }, () => post('server_ping', {}, {}, at)))
      const refused = replies.filter((reply) => reply.status === 429)
      expect(refused.length).toBeGreaterThan(0)
      expect(Number(refused[0]!.headers.get('retry-after'))).toBeGreaterThanOrEqual(1)
    } finally {
      await limited.close()
    }
    expect(key).toMatch(/^cst_/)
  })

  it('takes no body for no arguments, and names with percent signs', async () => {
    expect((await send('/v1/tools/server_ping', { method: 'POST' })).status).toBe(200)
    expect((await send('/v1/tools/server%5Fping', { method: 'POST' })).status).toBe(200)
    expect((await send('/v1/tools/%E0%A4%A', { method: 'POST' })).status).toBe(400)
  })

  it('says where JSON goes wrong', async () => {
    const reply = await send('/v1/tools/task_list', { method: 'POST', headers: json, body: '{\n  "limit": 1,\n}' })
    expect([reply.status, reply.body.error?.code]).toEqual([400, 'ERR_INVALID_INPUT'])
    expect(reply.body.error?.details).toMatchObject({ line: 3, column: 1, position: 16 })
    expect(reply.body.error?.message).toContain('line 3, column 1')
  })

  it('refuses bytes that are not UTF-8', async () => {
    const body = new Uint8Array([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d])
    const reply = await send('/v1/tools/task_list', { method: 'POST', headers: json, body })
    expect([reply.status, reply.body.error?.code]).toEqual([400, 'ERR_INVALID_INPUT'])
  })

  it.each([
    [{ 'content-type': 'text/plain' }],
    [{ 'content-type': 'application/x-www-form-urlencoded' }],
    [{ 'content-type': 'application/json; charset=latin1' }],
    [{ 'content-type': 'application/jsonp' }],
    [{ 'content-type': 'application/json', 'content-encoding': 'gzip' }],
  ])('refuses a body sent with %j', async (headers) => {
    const reply = await send('/v1/tools/task_list', { method: 'POST', headers: headers as HeadersInit, body: '{}' })
    expect([reply.status, reply.body.error?.code]).toEqual([415, 'ERR_MEDIA_TYPE_UNSUPPORTED'])
  })

  it('accepts a charset and a body without a type only if it is empty', async () => {
    const typed = { 'content-type': 'application/json; charset=UTF-8' }
    expect((await send('/v1/tools/task_list', { method: 'POST', headers: typed, body: '{}' })).status).toBe(200)
    const lines = ['POST /v1/tools/task_list HTTP/1.1', 'Host: localhost', 'Content-Length: 2', 'Connection: close']
    const untyped = await rawExchange(served.port, `${lines.join('\r\n')}\r\n\r\n{}`)
    expect(untyped).toMatch(/^HTTP\/1\.1 415 /)
  })

  it('warns in a header, since the body is the answer', async () => {
    const reply = await post('run_tool', { tool_name: 'task_list', limit: 1 })
    expect(reply.status).toBe(200)
    expect(reply.headers.get('castellan-warning')).toMatch(/\w/)
  })
})

describe('bodies that are too large', () => {
  const large = JSON.stringify({ title: 'x'.repeat(200_000), project: 'p' })

  it.each(['/v1/tools/task_create', '/mcp'])('are refused on %s before they are read', async (path) => {
    const reply = await send(path, { method: 'POST', headers: mcpHeaders, body: large })
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
    const init = { method: 'POST', headers: json, body, duplex: 'half' } as RequestInit
    const reply = await send('/v1/tools/task_create', init)
    expect([reply.status, reply.body.error?.code]).toEqual([413, 'ERR_TOO_LARGE'])
  })

  it('are refused with the reason for whoever has no key, however much comes', async () => {
    const body = JSON.stringify({ title: 'x'.repeat(90_000), project: 'p' })
    const reply = await send('/v1/tools/task_create', { method: 'POST', headers: json, body }, keyed)
    expect(reply.status).toBe(401)
  })
})

describe('routes', () => {
  it('tells its health to anyone, and little else', async () => {
    const reply = await send('/health')
    expect(reply.status).toBe(200)
    expect(reply.body).toEqual({ status: 'ok', version: '1.2.3', mode: 'FULL' })
  })

  it.each([
    [{ status: 'degraded', mode: 'FULL', db: { open: true } } as const, 200],
    [{ status: 'degraded', mode: 'FULL', db: { open: false } } as const, 503],
    [{ status: 'ok', mode: 'MINIMAL', db: { open: false } } as const, 200],
  ])('tells %j with %i', async (facts, status) => {
    const at = await peer.serve({ health: async () => facts })
    const reply = await send('/health', {}, at)
    expect([reply.status, reply.body['status']]).toEqual([status, facts.status])
  })

  it('is not well when it cannot tell', async () => {
    const at = await peer.serve({ health: () => Promise.reject(new Error('no store')) })
    expect((await send('/health', {}, at)).status).toBe(503)
  })

  it('lists the tools for whoever asks', async () => {
    const names = async (path: string, headers = {}) => {
      const { body } = await send(path, { headers })
      return (body['tools'] as { name: string }[]).map((tool) => tool.name)
    }
    expect(await names('/v1/tools')).toContain('search_tools')
    expect(await names('/v1/tools')).not.toContain('merkle_root')
    expect(await names('/v1/tools?tools=full')).toEqual(peer.app.catalog.names)
    expect(await names('/v1/tools?tools=full', bearer(readerKey))).not.toContain('task_create')
    expect(await names('/v1/tools?tools=server')).toEqual(expect.arrayContaining(['server_ping', 'server_health']))
  })

  it('publishes an OpenAPI document with every tool', async () => {
    const { body } = await send('/openapi.json')
    const paths = Object.keys(body['paths'] as object)
    expect(paths).toEqual(expect.arrayContaining(peer.app.catalog.names.map((name) => `/v1/tools/${name}`)))
  })

  it('says what it is, to people and to terminals', async () => {
    const text = await send('/')
    expect(text.headers.get('content-type')).toContain('text/plain')
    expect(text.text).toContain(`${served.url}/mcp`)
    const html = await send('/', { headers: { accept: 'text/html' } })
    expect(html.headers.get('content-type')).toContain('text/html')
    expect(html.headers.get('content-security-policy')).toContain("default-src 'none'")
    const odd = await raw(['GET / HTTP/1.1', 'Host: "><script>', 'Accept: text/html'], keyed)
    expect(odd.text).not.toContain('"><script>')
  })

  it.each(['/', '/health', '/openapi.json', '/v1/tools'])(
    'answers HEAD %s like GET, without the body',
    async (path) => {
      const [head, get] = [await send(path, { method: 'HEAD' }), await send(path)]
      expect([head.status, head.text]).toEqual([200, ''])
      expect(head.headers.get('content-length')).toBe(String(Buffer.byteLength(get.text)))
    },
  )

  it.each(['/nowhere', '/mcp/', '/mcpx', '/v1/tools/', '/v1/tools/a/b', '/health/', '/..%2fhealth', '//health'])(
    'has nothing at %s',
    async (path) => {
      const reply = await send(path)
      expect([reply.status, reply.body.error?.code]).toEqual([404, 'ERR_ROUTE_NOT_FOUND'])
    },
  )

  it('does not follow an absolute address', async () => {
    expect((await raw(['GET http://evil.example/health HTTP/1.1', 'Host: localhost'])).status).toBe(404)
  })

  it.each([
    ['POST', '/health', 'GET, HEAD, OPTIONS'],
    ['DELETE', '/v1/tools', 'GET, HEAD, OPTIONS'],
    ['GET', '/v1/tools/task_list', 'POST, OPTIONS'],
    ['PUT', '/', 'GET, HEAD, OPTIONS'],
  ])('does not take %s %s', async (method, path, allow) => {
    const reply = await send(path, { method })
    expect([reply.status, reply.body.error?.code]).toEqual([405, 'ERR_METHOD_NOT_ALLOWED'])
    expect(reply.headers.get('allow')).toBe(allow)
    expect((await send(path, { method: 'OPTIONS' })).headers.get('allow')).toBe(allow)
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
    const reply = await raw(['GET /health HTTP/1.1', 'Host: localhost', `X-Long: ${'x'.repeat(20_000)}`])
    expect(reply.status).toBe(431)
  })

  it('has bounds for slow clients', () => {
    const { server } = served.door
    expect([server.headersTimeout, server.requestTimeout, server.keepAliveTimeout]).toEqual([
      limits.httpHeadersTimeoutMs,
      limits.httpRequestTimeoutMs,
      limits.httpKeepAliveMs,
    ])
    expect(server.headersTimeout).toBeGreaterThan(0)
  })

  it('refuses to listen where others could come without a key', async () => {
    for (const host of ['0.0.0.0', '::', '192.0.2.1', 'example.com']) {
      await expect(peer.door().listen({ host, port: 0 })).rejects.toMatchObject({ code: 'ERR_CONFIG_INVALID' })
    }
    const open = await peer.door({ requireKeys: true }).listen({ host: '0.0.0.0', port: 0 })
    expect((await fetch(`http://127.0.0.1:${open.port}/v1/tools`)).status).toBe(401)
  })

  it('says which port is taken', async () => {
    const taken = peer.door().listen({ host: '127.0.0.1', port: served.port })
    await expect(taken).rejects.toMatchObject({ code: 'ERR_INIT_FAILED', message: expect.stringContaining('--port') })
  })

  it('is made without listening', () => {
    expect(createHttpDoor).toBeTypeOf('function')
    expect(peer.door().server.listening).toBe(false)
  })
})
