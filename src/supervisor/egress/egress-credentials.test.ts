import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import type { RequestListener } from 'node:http'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  bodyOf,
  createEgressRange,
  curl,
  type EgressRange,
  exchange,
  exchangeOn,
  nextChunk,
  openTunnelTo,
  type RawAnswer,
  secureTunnel,
} from '../../../test/support/egress-range.ts'
import type { EgressPolicy } from './egress-policy.ts'

const secret = 'sk-live-0123456789abcdef'
const run = promisify(execFile)

let range: EgressRange
let ca: string
let seen: (string | undefined)[]

beforeEach(async () => {
  range = await createEgressRange()
  ca = await readFile(range.authorityPath, 'utf8')
  seen = []
})
afterEach(() => range.close())

const record: RequestListener = (request, response) => {
  seen.push(request.headers.authorization)
  response.end('fine')
}

function withCredential(host: string, header = 'Authorization', value = `Bearer ${secret}`): EgressPolicy {
  return { ...range.allow(host), credentials: [{ host, header, value }] }
}

const proxyOption = (): readonly string[] => ['-x', `http://127.0.0.1:${range.proxy.port}`]

async function inTunnel(host: string, text: string): Promise<RawAnswer> {
  const { socket } = await openTunnelTo(range.proxy.port, host)
  return exchangeOn(await secureTunnel(socket, { servername: host.split(':')[0]!, ca }), text)
}

describe('a host with credentials', () => {
  it('gets them over verified TLS, and the workload never sees them', async () => {
    const upstream = await range.httpsUpstream(['api.test'], record)
    const host = `api.test:${upstream.port}`
    range.setPolicy(withCredential(host))
    const outcome = await curl([...proxyOption(), '--cacert', range.authorityPath, '-v', `https://${host}/`])
    expect(outcome).toMatchObject({ code: 0, stdout: 'fine' })
    expect(outcome.stderr).not.toContain(secret)
    expect(seen).toEqual([`Bearer ${secret}`])
    expect(range.proxy.counters()).toMatchObject({ openedTunnels: 1, blindTunnels: 0, requests: 1 })
  })

  it('gets them over plain HTTP too', async () => {
    const upstream = await range.httpUpstream(record)
    const host = `api.test:${upstream.port}`
    range.setPolicy(withCredential(host))
    await curl([...proxyOption(), `http://${host}/`])
    await curl([...proxyOption(), '-p', `http://${host}/`])
    expect(seen).toEqual([`Bearer ${secret}`, `Bearer ${secret}`])
  })

  it('gets ours in place of what the workload sent under that name, however it is written', async () => {
    const upstream = await range.httpsUpstream(['api.test'], (request, response) => {
      response.end(JSON.stringify(request.rawHeaders.filter((_, index) => index % 2 === 0)))
      seen.push(request.headers.authorization)
    })
    const host = `api.test:${upstream.port}`
    range.setPolicy(withCredential(host))
    const mine = 'AUTHORIZATION: mine\r\nauthorization: also mine\r\n'
    for (const connection of ['Connection: close\r\n', 'Connection: close, Authorization\r\n']) {
      const answer = await inTunnel(host, `GET / HTTP/1.1\r\nHost: ${host}\r\n${mine}${connection}\r\n`)
      expect(answer.body.match(/authorization/gi)).toHaveLength(1)
    }
    expect(seen).toEqual([`Bearer ${secret}`, `Bearer ${secret}`])
  })

  it('gets several, and each only at its own host and port', async () => {
    const answers: RequestListener = (request, response) => {
      seen.push(`${request.headers['x-key'] ?? 'none'}/${request.headers['x-other'] ?? 'none'}`)
      response.end()
    }
    const first = await range.httpsUpstream(['api.test', 'sub.api.test'], answers)
    const second = await range.httpUpstream(answers)
    const host = `api.test:${first.port}`
    const others = [`sub.api.test:${first.port}`, `api.test:${second.port}`]
    range.setPolicy({
      ...range.allow(host, ...others),
      credentials: [
        { host, header: 'X-Key', value: secret },
        { host, header: 'X-Other', value: 'second' },
      ],
    })
    const trusted = join(range.directory, 'trusted.pem')
    await curl([...proxyOption(), '--cacert', range.authorityPath, `https://${host}/`])
    await curl([...proxyOption(), '--cacert', trusted, `https://${others[0]}/`])
    await curl([...proxyOption(), `http://${others[1]}/`])
    expect(seen).toEqual([`${secret}/second`, 'none/none', 'none/none'])
  })

  it('is not given them when it cannot prove its name', async () => {
    const untrusted = await range.httpsUpstream(['api.test'], record, false)
    const wrongName = await range.httpsUpstream(['other.test'], record)
    for (const { port } of [untrusted, wrongName]) {
      const host = `api.test:${port}`
      range.setPolicy(withCredential(host))
      const answer = await inTunnel(host, `GET / HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`)
      expect(answer.status).toBe(502)
      expect(answer.body).toContain('valid certificate')
    }
    expect(seen).toEqual([])
  })

  it('does not give them to another virtual host on the same server', async () => {
    const upstream = await range.httpsUpstream(['api.test', 'evil.test'], record)
    const host = `api.test:${upstream.port}`
    range.setPolicy(withCredential(host))
    const heads = [
      `GET / HTTP/1.1\r\nHost: evil.test:${upstream.port}\r\n`,
      `GET / HTTP/1.1\r\nHost: api.test\r\n`,
      `GET https://evil.test/ HTTP/1.1\r\nHost: ${host}\r\n`,
    ]
    for (const head of heads) {
      const { status } = await inTunnel(host, `${head}Connection: close\r\n\r\n`)
      expect([400, 421]).toContain(status)
    }
    const { socket } = await openTunnelTo(range.proxy.port, host)
    await expect(secureTunnel(socket, { servername: 'evil.test', ca })).rejects.toThrow(/112|unrecognized/i)
    expect(seen).toEqual([])
  })

  it('does not get them back out of an upstream that repeats its request', async () => {
    const upstream = await range.httpsUpstream(['api.test'], (request, response) => {
      response.setHeader('X-Echo', `got ${request.headers.authorization}`)
      response.setHeader('X-Encoding', `${request.headers['accept-encoding']}`)
      const echo = `you sent ${request.headers.authorization}, that is ${secret}!`
      response.setHeader('Content-Length', echo.length)
      response.write(echo.slice(0, 25))
      setImmediate(() => response.end(echo.slice(25)))
    })
    const host = `api.test:${upstream.port}`
    range.setPolicy(withCredential(host))
    const curlTo = [...proxyOption(), '--cacert', range.authorityPath, '--compressed', '-i', `https://${host}/`]
    const outcome = await curl(curlTo)
    expect(outcome.code).toBe(0)
    expect(outcome.stdout).not.toContain(secret)
    expect(outcome.stdout).toContain('X-Encoding: identity')
    expect(outcome.stdout).toMatch(/you sent \*+, that is \*+!$/)
    const trace = await inTunnel(host, `TRACE / HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`)
    expect(trace.status).toBe(400)
  })

  it('gets them in the request that opens a WebSocket', async () => {
    const upstream = await range.httpsUpstream(['api.test'], record)
    upstream.server.on('upgrade', (request, socket) => {
      seen.push(request.headers.authorization)
      const accept = createHash('sha1').update(`${request.headers['sec-websocket-key']}x`).digest('base64')
      socket.write(
        `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nX-A: ${accept}\r\n\r\n`,
      )
      socket.on('error', () => {}).pipe(socket)
    })
    const host = `api.test:${upstream.port}`
    range.setPolicy(withCredential(host))
    const { socket } = await openTunnelTo(range.proxy.port, host)
    const secured = await secureTunnel(socket, { servername: 'api.test', ca })
    secured.write(`GET / HTTP/1.1\r\nHost: ${host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nearly`)
    let text = ''
    while (!text.endsWith('early')) text += String(await nextChunk(secured))
    expect(text).toMatch(/^HTTP\/1\.1 101 /)
    expect(seen).toEqual([`Bearer ${secret}`])
    secured.destroy()
  })

  it('is asked with the body of the workload, and takes requests one after the other', async () => {
    const upstream = await range.httpsUpstream(['api.test'], async (request, response) => {
      response.end(`${request.method} ${await bodyOf(request)};`)
    })
    const host = `api.test:${upstream.port}`
    range.setPolicy(withCredential(host))
    const base = [...proxyOption(), '--cacert', range.authorityPath, '-d', 'question', `https://${host}/`]
    const outcome = await curl([...base, `https://${host}/again`])
    expect(outcome.stdout).toBe('POST question;POST question;')
    expect(range.proxy.counters()).toMatchObject({ connectionsTotal: 1, openedTunnels: 1, requests: 2 })
  })

  it('is judged by the policy of the moment, request by request', async () => {
    const upstream = await range.httpsUpstream(['api.test'], record)
    const host = `api.test:${upstream.port}`
    range.setPolicy(withCredential(host))
    const { socket } = await openTunnelTo(range.proxy.port, host)
    const secured = await secureTunnel(socket, { servername: 'api.test', ca })
    secured.write(`GET / HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
    expect(String(await nextChunk(secured))).toContain('200 OK')
    range.setPolicy({ domains: [], credentials: [] })
    const answer = await exchangeOn(secured, `GET / HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
    expect(answer.head + answer.body).toContain('403')
    expect(seen).toHaveLength(1)
  })

  it('follows a redirect elsewhere without them', async () => {
    const elsewhere = await range.httpUpstream(record)
    const target = `other.test:${elsewhere.port}`
    const upstream = await range.httpsUpstream(['api.test'], (_, response) => {
      response.writeHead(302, { Location: `http://${target}/` }).end()
    })
    const host = `api.test:${upstream.port}`
    const credentials = [{ host, header: 'Authorization', value: `Bearer ${secret}` }]
    range.setPolicy({ ...range.allow(host, target), credentials })
    const outcome = await curl([...proxyOption(), '--cacert', range.authorityPath, '-L', `https://${host}/`])
    expect(outcome.stdout).toBe('fine')
    expect(seen).toEqual([undefined])
  })
})

describe('the certificate that a workload sees', () => {
  it('passes the strictest checks', async () => {
    const upstream = await range.httpsUpstream(['api.test'], record)
    const host = `api.test:${upstream.port}`
    range.setPolicy(withCredential(host))
    const script = [
      'import ssl, socket, sys',
      's = socket.create_connection(("127.0.0.1", int(sys.argv[1])))',
      's.sendall(f"CONNECT {sys.argv[2]} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n".encode())',
      'assert b" 200 " in s.recv(4096)',
      'c = ssl.create_default_context(cafile=sys.argv[3])',
      'c.verify_flags |= ssl.VERIFY_X509_STRICT',
      'print(c.wrap_socket(s, server_hostname="api.test").getpeercert()["subjectAltName"])',
    ].join('\n')
    const { stdout } = await run('python3', ['-c', script, `${range.proxy.port}`, host, range.authorityPath])
    expect(stdout.trim()).toBe("(('DNS', 'api.test'),)")
  })
})

describe('a proxy on which nobody listens for the answer', () => {
  it('ends the request upstream when the workload goes away', async () => {
    let isClosed: () => void = () => {}
    const closed = new Promise<void>((resolve) => {
      isClosed = resolve
    })
    let hasArrived: () => void = () => {}
    const arrived = new Promise<void>((resolve) => {
      hasArrived = resolve
    })
    const upstream = await range.httpsUpstream(['api.test'], (_, response) => {
      response.once('close', isClosed)
      hasArrived()
    })
    const host = `api.test:${upstream.port}`
    range.setPolicy(withCredential(host))
    const { socket } = await openTunnelTo(range.proxy.port, host)
    const secured = await secureTunnel(socket, { servername: 'api.test', ca })
    secured.write(`GET / HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
    await arrived
    secured.destroy()
    await closed
  })

  it('says where it cannot serve: a CONNECT to a name that leads inside', async () => {
    const inside = 'inside.test:443'
    range.setPolicy({
      domains: ['inside.test'],
      credentials: [{ host: 'inside.test', header: 'X-Key', value: secret }],
    })
    const answer = await inTunnel(inside, 'GET / HTTP/1.1\r\nHost: inside.test\r\nConnection: close\r\n\r\n')
    expect(answer.status).toBe(403)
    expect(answer.body).not.toContain(secret)
    expect(await exchange(range.proxy.port, 'GET http://inside.test/ HTTP/1.1\r\nHost: x\r\n\r\n')).toMatchObject({
      status: 403,
    })
  })
})
