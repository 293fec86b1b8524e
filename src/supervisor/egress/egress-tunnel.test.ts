import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { connect as connectHttp2 } from 'node:http2'
import { connect } from 'node:net'
import { join } from 'node:path'
import type { Duplex } from 'node:stream'
import { text } from 'node:stream/consumers'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  createEgressRange,
  curl,
  type EgressRange,
  exchangeOn,
  nextChunk,
  openTunnelTo,
  secureTunnel,
} from '../../../test/support/egress-range.ts'

let range: EgressRange
let ca: string

beforeEach(async () => {
  range = await createEgressRange()
  ca = await readFile(join(range.directory, 'trusted.pem'), 'utf8')
})
afterEach(() => range.close())

const request = (host: string): string => `GET / HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`

/** The opening handshake of RFC 6455, then an echo. */
function acceptWebSocket(key: string | undefined, socket: Duplex): void {
  const accept = createHash('sha1').update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64')
  const lines = ['HTTP/1.1 101 Switching Protocols', 'Upgrade: websocket', 'Connection: Upgrade']
  socket.write(`${lines.join('\r\n')}\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`)
  socket.on('error', () => {}).pipe(socket)
}

const upgradeRequest = (path: string, host: string): string =>
  [
    `GET ${path} HTTP/1.1`,
    `Host: ${host}`,
    'Connection: Upgrade',
    'Upgrade: websocket',
    'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
    'Sec-WebSocket-Version: 13',
    '\r\n',
  ].join('\r\n')
const expectedAccept = 's3pPLMBiTxaQ9kYGzzhZRbK+xOo='

describe('a tunnel to a host without credentials', () => {
  it('is passed on unread: the workload sees the certificate of the real host', async () => {
    const upstream = await range.httpsUpstream(['api.test'], (_, response) => response.end('real'))
    const host = `api.test:${upstream.port}`
    range.setPolicy(range.allow(host))
    const trusted = join(range.directory, 'trusted.pem')
    const proxy = ['-x', `http://127.0.0.1:${range.proxy.port}`]
    expect(await curl([...proxy, '--cacert', trusted, `https://${host}/`])).toMatchObject({ code: 0, stdout: 'real' })
    const withOurs = await curl([...proxy, '--cacert', range.authorityPath, `https://${host}/`])
    expect(withOurs.code).toBe(60)
    expect(range.proxy.counters()).toMatchObject({ blindTunnels: 2, openedTunnels: 0 })
  })

  it('takes the subdomains that a wildcard covers, and not the domain itself', async () => {
    const upstream = await range.httpsUpstream(['a.b.api.test', 'api.test'], (_, response) => response.end('real'))
    const { port } = upstream
    range.setPolicy({
      domains: [`*.api.test:${port}`],
      credentials: [],
      allowPrivate: [`a.b.api.test:${port}`, `api.test:${port}`],
    })
    const below = await openTunnelTo(range.proxy.port, `A.B.api.test:${port}`)
    expect(below.answer.status).toBe(200)
    const secured = await secureTunnel(below.socket, { servername: 'a.b.api.test', ca })
    expect((await exchangeOn(secured, request('a.b.api.test'))).body).toContain('real')
    expect((await openTunnelTo(range.proxy.port, `api.test:${port}`)).answer.status).toBe(403)
    expect((await openTunnelTo(range.proxy.port, `notapi.test:${port}`)).answer.status).toBe(403)
  })

  it.each([
    ['another name', 'other.test'],
    ['no name', ''],
  ])('is closed with an alert when its TLS hello has %s, and nothing of it reaches the host', async (_, servername) => {
    let requests = 0
    const upstream = await range.httpsUpstream(['api.test', 'other.test'], (_request, response) => {
      requests += 1
      response.end()
    })
    let bytes = 0
    upstream.server.on('connection', (socket) => socket.on('data', (chunk: Buffer) => (bytes += chunk.length)))
    const host = `api.test:${upstream.port}`
    range.setPolicy(range.allow(host, `other.test:${upstream.port}`))
    const { answer, socket } = await openTunnelTo(range.proxy.port, host)
    expect(answer.status).toBe(200)
    await expect(secureTunnel(socket, { servername, ca })).rejects.toThrow(/alert number 112|unrecognized name/i)
    expect({ requests, bytes }).toEqual({ requests: 0, bytes: 0 })
    expect(range.proxy.counters().refused).toEqual({ 'name-mismatch': 1 })
  })

  it('carries HTTP/2, which the proxy itself does not speak', async () => {
    const upstream = await range.http2Upstream(['api.test'], (stream) => {
      stream.respond({ ':status': 200 })
      stream.end('two')
    })
    const host = `api.test:${upstream.port}`
    range.setPolicy(range.allow(host))
    const { socket } = await openTunnelTo(range.proxy.port, host)
    const secured = await secureTunnel(socket, { servername: 'api.test', ca, alpn: ['h2'] })
    const session = connectHttp2(`https://${host}`, { createConnection: () => secured })
    session.on('error', () => {})
    const stream = session.request({ ':path': '/' })
    expect(await text(stream)).toBe('two')
    session.destroy()
  })

  it('carries a WebSocket', async () => {
    const upstream = await range.httpsUpstream(['api.test'], (_, response) => response.end())
    upstream.server.on('upgrade', (incoming, socket) => acceptWebSocket(incoming.headers['sec-websocket-key'], socket))
    const host = `api.test:${upstream.port}`
    range.setPolicy(range.allow(host))
    const { socket } = await openTunnelTo(range.proxy.port, host)
    const secured = await secureTunnel(socket, { servername: 'api.test', ca })
    secured.write(upgradeRequest('/', host))
    expect(String(await nextChunk(secured))).toContain(expectedAccept)
    secured.write('ping')
    expect(String(await nextChunk(secured))).toBe('ping')
    secured.destroy()
  })

  it('lets nothing through but TLS and HTTP', async () => {
    const upstream = await range.httpUpstream((_, response) => response.end())
    let bytes = 0
    upstream.server.on('connection', (socket) => socket.on('data', (chunk: Buffer) => (bytes += chunk.length)))
    const host = `api.test:${upstream.port}`
    range.setPolicy(range.allow(host))
    const { socket } = await openTunnelTo(range.proxy.port, host)
    expect((await exchangeOn(socket, 'SSH-2.0-OpenSSH_9.2\r\n')).status).toBe(400)
    const broken = await openTunnelTo(range.proxy.port, host)
    broken.socket.write(Buffer.from([22, 3, 1, 0, 5, 2, 0, 0, 1, 0]))
    expect(await nextChunk(broken.socket)).toEqual(Buffer.from([21, 3, 3, 0, 2, 2, 49]))
    expect(bytes).toBe(0)
  })
})

describe('plain HTTP in a tunnel', () => {
  it('goes to the host that the tunnel was opened to, and to no other', async () => {
    const upstream = await range.httpUpstream((incoming, response) => response.end(`for ${incoming.headers.host}`))
    const host = `api.test:${upstream.port}`
    range.setPolicy(range.allow(host, `other.test:${upstream.port}`))
    const outcome = await curl(['-p', '-x', `http://127.0.0.1:${range.proxy.port}`, `http://${host}/`])
    expect(outcome).toMatchObject({ code: 0, stdout: `for ${host}` })
    const { socket } = await openTunnelTo(range.proxy.port, host)
    const answer = await exchangeOn(socket, request(`other.test:${upstream.port}`))
    expect(answer.status).toBe(421)
  })

  it('carries a WebSocket, as does a request without a tunnel', async () => {
    const upstream = await range.httpUpstream((_, response) => response.end())
    upstream.server.on('upgrade', (incoming, socket) => acceptWebSocket(incoming.headers['sec-websocket-key'], socket))
    const host = `api.test:${upstream.port}`
    range.setPolicy(range.allow(host))
    const inside = (await openTunnelTo(range.proxy.port, host)).socket
    inside.write(upgradeRequest('/', host))
    const outside = connect(range.proxy.port, '127.0.0.1')
    outside.on('error', () => {})
    outside.write(upgradeRequest(`http://${host}/`, host))
    for (const socket of [inside, outside]) {
      expect(String(await nextChunk(socket))).toContain(expectedAccept)
      socket.write('ping')
      expect(String(await nextChunk(socket))).toBe('ping')
      socket.destroy()
    }
  })

  it('opens no tunnel inside a tunnel', async () => {
    const upstream = await range.httpUpstream((_, response) => response.end())
    const host = `api.test:${upstream.port}`
    range.setPolicy(range.allow(host))
    const { socket } = await openTunnelTo(range.proxy.port, host)
    const answer = await exchangeOn(socket, `CONNECT ${host} HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
    expect(answer.status).toBe(0)
  })
})

describe('a hello with an encrypted part', () => {
  /** A ClientHello for api.test with one more extension. The proxy reads no further. */
  function helloWithEncryptedPart(): Buffer {
    const name = Buffer.from('api.test')
    const entry = Buffer.concat([Buffer.from([0, 0, name.length]), name])
    const list = Buffer.concat([Buffer.from([0, entry.length]), entry])
    const extensions = Buffer.concat([Buffer.from([0, 0, 0, list.length]), list, Buffer.from([0xfe, 0x0d, 0, 2, 1, 2])])
    const body = Buffer.concat([
      Buffer.from([3, 3]),
      Buffer.alloc(32, 7),
      Buffer.from([0, 0, 2, 0x13, 0x01, 1, 0, 0, extensions.length]),
      extensions,
    ])
    const handshake = Buffer.concat([Buffer.from([1, 0, 0, body.length]), body])
    return Buffer.concat([Buffer.from([22, 3, 1, 0, handshake.length]), handshake])
  }

  it('is refused, for it may name another server', async () => {
    const upstream = await range.httpsUpstream(['api.test'], (_, response) => response.end())
    const host = `api.test:${upstream.port}`
    range.setPolicy(range.allow(host))
    const { socket } = await openTunnelTo(range.proxy.port, host)
    socket.write(helloWithEncryptedPart())
    expect(await nextChunk(socket)).toEqual(Buffer.from([21, 3, 3, 0, 2, 2, 49]))
    expect(range.proxy.counters().refused).toEqual({ 'encrypted-name': 1 })
  })

  it('passes where the operator allows it', async () => {
    const open = await createEgressRange({ allowEncryptedClientHello: true })
    try {
      const upstream = await open.httpsUpstream(['api.test'], (_, response) => response.end())
      const host = `api.test:${upstream.port}`
      open.setPolicy(open.allow(host))
      const { socket } = await openTunnelTo(open.proxy.port, host)
      socket.write(helloWithEncryptedPart())
      await nextChunk(socket)
      expect(open.proxy.counters()).toMatchObject({ blindTunnels: 1, refused: {} })
      socket.destroy()
    } finally {
      await open.close()
    }
  })
})
