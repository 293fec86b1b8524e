import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  bearer,
  type HttpTransportApp,
  mcpHeaders,
  openHttpTransportApp,
  post,
  type ServedTransport,
  send,
  sendRaw,
} from '../../test/support/http-transport-peer.ts'
import { limits } from '../contract/limits.ts'
import { localOwner } from '../contract/principal.ts'
import { publicPaths } from './route-table.ts'

let peer: HttpTransportApp
let served: ServedTransport
let keyed: ServedTransport
let memberKey: string
let readerKey: string

beforeAll(async () => {
  peer = await openHttpTransportApp()
  served = await peer.serve({ allowedHosts: ['castle.example'], allowedOrigins: ['https://console.example'] })
  keyed = await peer.serve({ requireKeys: true })
  memberKey = await peer.createKey({ name: 'member' })
  readerKey = await peer.createKey({ name: 'reader', scopes: ['task:read'] })
})
afterAll(() => peer.close())

const forwardingHeaders = [
  ...['forwarded', 'via', 'x-real-ip', 'cf-connecting-ip', 'true-client-ip'],
  ...['x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto'],
]
const initialize = JSON.stringify({
  jsonrpc: '2.0',
  id: 0,
  method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'test', version: '1' } },
})
const openSession = (headers: Record<string, string> = {}, at = served, path = '/mcp') =>
  send(at, path, { method: 'POST', headers: { ...mcpHeaders, ...headers }, body: initialize })

describe('Host and Origin', () => {
  const paths = ['GET /', 'GET /health', 'GET /openapi.json', 'GET /v1/tools', 'GET /mcp', 'POST /mcp', 'GET /nowhere']

  it.each(paths)('refuses a foreign Host on %s', async (line) => {
    const reply = await sendRaw(served, [`${line} HTTP/1.1`, 'Host: evil.example:80'])
    expect(reply.status).toBe(403)
    expect(reply.text).toContain('ERR_HOST_REFUSED')
  })

  it.each(paths)('refuses a foreign Origin on %s, and gives it no CORS header', async (line) => {
    const reply = await sendRaw(served, [`${line} HTTP/1.1`, 'Host: localhost', 'Origin: https://evil.example'])
    expect(reply.status).toBe(403)
    expect(reply.text).toContain('ERR_ORIGIN_REFUSED')
    expect(reply.text.toLowerCase()).not.toContain('access-control-')
  })

  it.each(['localhost', 'LOCALHOST:1', '127.0.0.1', '[::1]:7433', 'castle.example', 'castle.example:8443'])(
    'answers to the Host %s',
    async (host) => {
      expect((await sendRaw(served, ['GET /health HTTP/1.1', `Host: ${host}`])).status).toBe(200)
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
    expect((await sendRaw(served, ['GET /health HTTP/1.1', `Host: ${host}`])).status).toBe(403)
  })

  it.each([
    ['evil.example', 'localhost'],
    ['localhost', 'evil.example'],
    ['localhost', 'localhost'],
  ])('refuses the two Hosts %s and %s, also where any one is accepted', async (one, two) => {
    for (const at of [served, keyed]) {
      const reply = await sendRaw(at, ['GET /health HTTP/1.1', `Host: ${one}`, `HOST: ${two}`])
      expect(reply.status).toBe(400)
    }
  })

  it('refuses a request without Host', async () => {
    expect((await sendRaw(served, ['GET /health HTTP/1.0'])).status).toBe(403)
  })

  it('allows a configured Origin and says so to the browser', async () => {
    const origin = 'https://console.example'
    for (const site of ['cross-site', 'same-site', 'same-origin']) {
      const reply = await send(served, '/health', { headers: { origin, 'sec-fetch-site': site } })
      expect(reply.status).toBe(200)
      expect(reply.headers.get('access-control-allow-origin')).toBe(origin)
      expect(reply.headers.get('access-control-expose-headers')).toContain('Mcp-Session-Id')
      expect(reply.headers.get('vary')).toContain('Origin')
    }
  })

  it.each([
    'null',
    'http://localhost',
    'http://localhost:3000',
    'https://127.0.0.1',
    'http://[::1]:5173',
    'http://evil.localhost',
    'http://localhost.evil.example',
    'http://evil.example?localhost',
    'file://',
    'http://console.example',
  ])('refuses the Origin %s', async (origin) => {
    expect((await send(served, '/health', { headers: { origin } })).status).toBe(403)
  })

  it.each(['127.0.0.1:1', 'localhost:1', '[::1]:1', 'castle.example:1', 'castle.example', 'CASTLE.example'])(
    'allows the page of the server itself, and of no other port: %s',
    async (host) => {
      const ask = async (origin: string, ...more: string[]) =>
        (await sendRaw(served, ['GET /v1/tools HTTP/1.1', `Host: ${host}`, `Origin: ${origin}`, ...more])).status
      expect([await ask(`http://${host}`), await ask(`https://${host}`)]).toEqual([200, 200])
      expect(await ask(`http://${host}`, 'Sec-Fetch-Site: same-origin')).toBe(200)
      expect(await ask(`http://${host.replace(/:1$/, '')}:2`)).toBe(403)
      // A browser that calls them two sites knows better.
      for (const site of ['same-site', 'cross-site'])
        expect(await ask(`http://${host}`, `Sec-Fetch-Site: ${site}`)).toBe(403)
    },
  )

  it('refuses what a browser sends for the page of another site without an Origin', async () => {
    for (const site of ['same-site', 'cross-site', 'whatever'])
      for (const line of paths) {
        const reply = await sendRaw(served, [`${line} HTTP/1.1`, 'Host: localhost', `Sec-Fetch-Site: ${site}`])
        expect([line, reply.status, reply.text.includes('ERR_ORIGIN_REFUSED')]).toEqual([line, 403, true])
      }
    for (const site of ['same-origin', 'none'])
      expect((await send(served, '/v1/tools', { headers: { 'sec-fetch-site': site } })).status).toBe(200)
  })

  it('shows to a caller that follows a link only what is for everybody', async () => {
    const statusOf = async (line: string, dest = 'document') => {
      const link = ['Sec-Fetch-Site: cross-site', 'Sec-Fetch-Mode: navigate', `Sec-Fetch-Dest: ${dest}`]
      return (await sendRaw(served, [`${line} HTTP/1.1`, 'Host: localhost', ...link])).status
    }
    for (const path of publicPaths) {
      expect([path, await statusOf(`GET ${path}`)]).toEqual([path, 200])
      expect([path, (await send(keyed, path)).status]).toEqual([path, 200])
      expect([path, await statusOf(`GET ${path}`, 'iframe')]).toEqual([path, 403])
    }
    for (const path of ['/v1/tools', '/v1/agents', '/v1/seal/tools', '/mcp', '/mcp?tools=full', '/nowhere'])
      expect([path, await statusOf(`GET ${path}`)]).toEqual([path, 403])
    expect(await statusOf('POST /')).toBe(403)
  })

  it('gives no CORS header to a request without Origin', async () => {
    const { headers } = await send(served, '/health')
    expect([...headers.keys()].filter((name) => name.startsWith('access-control-'))).toEqual([])
  })

  it('accepts any Host where keys are demanded and no names are configured', async () => {
    expect((await sendRaw(keyed, ['GET /health HTTP/1.1', 'Host: anything.example'])).status).toBe(200)
    const named = await peer.serve({ requireKeys: true, allowedHosts: ['castle.example'] })
    expect((await sendRaw(named, ['GET /health HTTP/1.1', 'Host: anything.example'])).status).toBe(403)
  })

  it('answers a preflight of an allowed origin, for /mcp and for tools', async () => {
    for (const [path, methods] of [
      ['/mcp', 'GET, POST, DELETE, OPTIONS'],
      ['/v1/tools/task_list', 'POST, OPTIONS'],
    ] as const) {
      const reply = await send(served, path, {
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
    const { body } = await post(served, 'task_create', { title: 'Mine', project: 'p' })
    expect(body['created_by']).toBe('owner')
  })

  it.each([
    ['Authorization', (token: string) => bearer(token)],
    ['Authorization, in lower case', (token: string) => ({ authorization: `bearer ${token}` })],
    ['X-Api-Key', (token: string) => ({ 'x-api-key': token })],
    ['both, equal', (token: string) => ({ ...bearer(token), 'x-api-key': token })],
  ])('is who the key says: %s', async (_, headers) => {
    for (const at of [served, keyed]) {
      const { body } = await post(at, 'task_create', { title: 'Theirs', project: 'p' }, headers(memberKey))
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
    ['a key where model proxies take it', { 'x-castellan-key': 'cst_a' }],
    ['a key where Google takes it', { 'x-goog-api-key': 'cst_a' }],
    ['a key where Azure takes it', { 'api-key': 'cst_a' }],
  ])('is nobody with %s: never the owner', async (_, headers) => {
    for (const reply of [
      await post(served, 'server_ping', {}, headers),
      await send(served, '/v1/tools', { headers }),
      await openSession(headers),
      await post(keyed, 'server_ping', {}, headers),
    ]) {
      expect([reply.status, reply.body.error?.code]).toEqual([401, 'ERR_UNAUTHENTICATED'])
      expect(reply.headers.get('www-authenticate')).toMatch(/^Bearer/)
    }
  })

  it('is nobody without a key where keys are demanded, though facts stay public', async () => {
    for (const reply of [
      await post(keyed, 'server_ping', {}),
      await send(keyed, '/v1/tools'),
      await openSession({}, keyed),
    ]) {
      expect(reply.status).toBe(401)
    }
    for (const path of ['/', '/health', '/openapi.json']) expect((await send(keyed, path)).status).toBe(200)
  })

  it.each(forwardingHeaders)('is not the owner behind a proxy that sends %s', async (name) => {
    expect((await post(served, 'server_ping', {}, { [name]: '127.0.0.1' })).status).toBe(401)
    expect((await post(served, 'server_ping', {}, { [name]: '10.0.0.1', ...bearer(memberKey) })).status).toBe(200)
  })

  it('is told on the welcome page how to send the key, where one is demanded', async () => {
    for (const accept of ['text/plain', 'text/html']) {
      const open = await send(served, '/', { headers: { accept } })
      const demanding = await send(keyed, '/', { headers: { accept } })
      const lines = (text: string) => text.split('\n').filter((line) => /claude mcp add|curl/.test(line))
      expect(lines(demanding.text)).toHaveLength(2)
      for (const line of lines(demanding.text)) expect(line).toContain('Authorization: Bearer cst_')
      for (const line of lines(open.text)) expect(line).not.toContain('Authorization')
    }
  })

  it('is told how to sign in, once there are people', async () => {
    const own = await openHttpTransportApp()
    try {
      const at = await own.serve({ requireKeys: true })
      const refused = async () => (await send(at, '/mcp/work', { method: 'POST' })).body.error!.message
      const shown = async () =>
        `${(await send(at, '/')).text}${(await send(at, '/', { headers: { accept: 'text/html' } })).text}`
      expect(await refused()).not.toContain('sign')
      expect(await shown()).not.toMatch(/sign-in|account/)
      const caller = { principal: localOwner, transport: 'cli', exposure: 'full', safeNames: false } as const
      const created = await own.app.host.call(caller, 'user_create', { email: 'ada@example.com' })
      expect(created.isError).not.toBe(true)
      expect(await refused()).toMatch(/API key.*keys create.*OAuth.*castellan login.*\/sign-in/)
      expect(await refused()).toContain(`${at.url}/sign-in`)
      expect(await shown()).toMatch(/GET {2}\/sign-in .*GET {2}\/account .*href="\/sign-in".*href="\/account"/s)
    } finally {
      await own.close()
    }
  })

  it('may do what the key may', async () => {
    const denied = await post(served, 'task_create', { title: 'No', project: 'p' }, bearer(readerKey))
    expect([denied.status, denied.body.error?.code]).toEqual([403, 'ERR_PERMISSION_DENIED'])
    expect((await post(served, 'task_list', {}, bearer(readerKey))).status).toBe(200)
  })

  it('cannot be told while the store does not open, and that is not a bad key', async () => {
    const broken = await peer.serve({ identity: () => Promise.reject(new Error('disk')) })
    const reply = await post(broken, 'server_ping', {}, bearer(memberKey))
    expect([reply.status, reply.body.error?.code]).toEqual([500, 'ERR_INTERNAL'])
    expect(reply.text).not.toContain('disk')
    const none = await peer.serve({ identity: async () => undefined })
    expect((await post(none, 'server_ping', {}, bearer(memberKey))).status).toBe(401)
  })
})

describe('/mcp', () => {
  it('reaches the MCP transport, with the tools that the address asks for', async () => {
    const opened = await openSession({}, served, '/mcp?tools=server')
    expect(opened.status).toBe(200)
    const listed = await send(served, '/mcp?tools=server', {
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
    const theirs = await send(served, '/mcp', {
      method: 'POST',
      headers: { ...headers, ...bearer(memberKey) },
      body: call,
    })
    expect(theirs.text).toContain('"created_by":"member"')
    const stolen = await send(served, '/mcp', { method: 'POST', headers, body: call })
    expect(stolen.status).toBe(404)
  })

  it('refuses an address that asks for tools there are not', async () => {
    const reply = await openSession({}, served, '/mcp?tools=servr')
    expect(reply.status).toBe(400)
    expect(reply.body.error?.message).toContain("Did you mean 'server'?")
    expect((await openSession({}, served, '/mcp?names=odd')).status).toBe(400)
  })

  it('lets a page read the session id', async () => {
    const reply = await openSession({ origin: 'https://console.example' })
    expect(reply.headers.get('mcp-session-id')).not.toBeNull()
    expect(reply.headers.get('access-control-allow-origin')).toBe('https://console.example')
  })
})

describe('a body of brackets', () => {
  const deep = `{"a":${'['.repeat(40_000)}${']'.repeat(40_000)}}`
  const wide = `{"a":[${'[],'.repeat(limits.messageValuesMax / 2)}[]]}`
  const named = `{${Array.from({ length: limits.messageMembersMax + 1 }, (_, at) => `"k${at}":0`)}}`

  it('is refused before it is parsed, at every transport', async () => {
    const open = await peer.serve({ bodyBytesMax: limits.messageBytesMax })
    const sendTo = (path: string, body: string) => send(open, path, { method: 'POST', headers: mcpHeaders, body })
    const message = /nested too deeply: at most 64 levels/
    for (const path of ['/v1/tools/server_ping', '/v1/seal/attest', '/v1/seal/invoke']) {
      const reply = await sendTo(path, deep)
      expect([path, reply.status, message.test(reply.text)]).toEqual([path, 400, true])
    }
    for (const body of [wide, named]) {
      expect((await sendTo('/v1/tools/server_ping', body)).body.error).toMatchObject({
        code: 'ERR_TOO_LARGE',
        details: { field: 'body' },
      })
    }
    for (const [body, reason] of [
      [deep, 'nest more than 64 levels'],
      [wide, 'more than 200000 values'],
      [named, 'more than 25000 members'],
    ] as const) {
      const reply = await sendTo('/mcp', body)
      expect([reply.status, reply.text]).toEqual([400, expect.stringContaining(reason)])
    }
  })
})
