import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  bodyOf,
  createEgressRange,
  curl,
  type EgressRange,
  exchange,
  openTunnelTo,
} from '../../../test/support/egress-range.ts'

let range: EgressRange

beforeEach(async () => {
  range = await createEgressRange()
})
afterEach(() => range.close())

const proxyOf = ({ proxy }: EgressRange): readonly string[] => ['-x', `http://127.0.0.1:${proxy.port}`]
const get = (url: string, host: string, more = ''): string =>
  `GET ${url} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n${more}\r\n`

describe('plain HTTP through the proxy', () => {
  it('goes to an allowed host, with its body, and back', async () => {
    const upstream = await range.httpUpstream(async (request, response) => {
      const body = await bodyOf(request)
      response.setHeader('X-Said', 'yes')
      response.statusCode = 201
      response.end(`${request.method} ${request.url} ${request.headers.host} ${body}`)
    })
    const host = `api.test:${upstream.port}`
    range.setPolicy(range.allow(host))
    const outcome = await curl([...proxyOf(range), '-i', '-d', 'a=1', `http://${host}/path?q=%20x`])
    expect(outcome.code).toBe(0)
    expect(outcome.stdout).toContain('HTTP/1.1 201 Created')
    expect(outcome.stdout).toContain('X-Said: yes')
    expect(outcome.stdout).toContain(`POST /path?q=%20x ${host} a=1`)
    expect(range.proxy.counters()).toMatchObject({ requests: 1, refused: {} })
  })

  it('sends the checked host and no header that was meant for the proxy', async () => {
    const upstream = await range.httpUpstream((request, response) => response.end(JSON.stringify(request.rawHeaders)))
    const host = `api.test:${upstream.port}`
    range.setPolicy(range.allow(host))
    const mine = 'Proxy-Authorization: Basic abc\r\nConnection: X-Hop\r\nX-Hop: 1\r\nX-Mine: 2\r\nTE: trailers\r\n'
    const answer = await exchange(range.proxy.port, get(`http://API.Test.:${upstream.port}/`, 'other.test', mine))
    expect(answer.status).toBe(200)
    expect(JSON.parse(answer.body.match(/\[.*\]/)![0])).toEqual(['Host', host, 'X-Mine', '2', 'Connection', 'close'])
  })

  it('streams a chunked body up without knowing its length', async () => {
    const upstream = await range.httpUpstream(async (request, response) => response.end(await bodyOf(request)))
    const host = `api.test:${upstream.port}`
    range.setPolicy(range.allow(host))
    const head = `PUT http://${host}/ HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n`
    const answer = await exchange(range.proxy.port, `${head}3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n`)
    expect(answer.body).toContain('abcde')
  })

  it('keeps the connection of a workload for its next request', async () => {
    const upstream = await range.httpUpstream((request, response) => response.end(request.url))
    const host = `api.test:${upstream.port}`
    range.setPolicy(range.allow(host))
    const outcome = await curl([...proxyOf(range), `http://${host}/one`, `http://${host}/two`])
    expect(outcome.stdout).toBe('/one/two')
    expect(range.proxy.counters()).toMatchObject({ requests: 2, connectionsTotal: 1 })
  })
})

describe('what is refused', () => {
  it('says in one line that a host is not allowed, and does not even look it up', async () => {
    range.setPolicy({ domains: ['api.test'], credentials: [] })
    const answer = await exchange(range.proxy.port, get('http://evil.test/', 'api.test'))
    expect(answer).toMatchObject({ status: 403 })
    expect(answer.body).toBe('Egress proxy: evil.test:80 is not among the allowed domains of this workspace.\n')
    const outcome = await curl([...proxyOf(range), '-v', 'https://evil.test/'])
    expect(outcome.code).not.toBe(0)
    expect(outcome.stderr).toContain('403')
    expect(range.lookups).toEqual([])
    expect(range.proxy.counters().refused).toEqual({ 'host-not-allowed': 2 })
  })

  it('serves no address that has no policy', async () => {
    range.setPolicy(undefined)
    expect(await exchange(range.proxy.port, get('http://api.test/', 'api.test'))).toMatchObject({ status: 403 })
    expect((await openTunnelTo(range.proxy.port, 'api.test:443')).answer.status).toBe(403)
    expect(range.proxy.counters().refused).toEqual({ 'no-policy': 2 })
  })

  it('serves nobody by a policy that cannot be read', async () => {
    range.setPolicy({ domains: ['api.test', 'müller.test'], credentials: [] })
    expect(await exchange(range.proxy.port, get('http://api.test/', 'api.test'))).toMatchObject({ status: 403 })
  })

  it.each([
    ['a path without a host', get('/', 'api.test')],
    ['https without a tunnel', get('https://api.test/', 'api.test')],
    ['a user name in the address', get('http://user:pass@api.test/', 'api.test')],
    ['a name that a resolver would read as an address', get('http://127.1/', 'api.test')],
    ['a port that is none', get('http://api.test:99999/', 'api.test')],
    ['CONNECT without a port', 'CONNECT api.test HTTP/1.1\r\nHost: api.test\r\n\r\n'],
  ])('answers 400 to %s', async (_, text) => {
    range.setPolicy({ domains: ['api.test', '127.0.0.1'], credentials: [] })
    expect((await exchange(range.proxy.port, text)).status).toBe(400)
    expect(range.lookups).toEqual([])
  })

  it('allows ports 80 and 443 unless the entry names another', async () => {
    range.setPolicy({ domains: ['api.test', 'odd.test:8080'], credentials: [] })
    const refused = async (url: string) => (await exchange(range.proxy.port, get(url, 'x.test'))).body
    expect(await refused('http://api.test:8080/')).toContain('not among the allowed domains')
    expect(await refused('http://odd.test/')).toContain('not among the allowed domains')
    expect(await refused('http://odd.test:8080/')).toContain('private or special address')
    expect(await refused('http://api.test/')).toContain('private or special address')
  })

  it('refuses a head that is too large', async () => {
    const answer = await exchange(
      range.proxy.port,
      get('http://api.test/', 'api.test', `X-Big: ${'a'.repeat(40_000)}\r\n`),
    )
    expect(answer.status).toBe(431)
  })

  it('says so when the upstream cannot be reached, or breaks off', async () => {
    const upstream = await range.httpUpstream((request) => request.socket.destroy())
    range.setPolicy(range.allow(`api.test:${upstream.port}`, 'api.test:1'))
    const broken = await exchange(range.proxy.port, get(`http://api.test:${upstream.port}/`, 'api.test'))
    expect(broken).toMatchObject({ status: 502 })
    const closed = await exchange(range.proxy.port, get('http://api.test:1/', 'api.test'))
    expect(closed.body).toContain('does not accept the connection')
  })

  it('breaks the answer off when the upstream does, instead of ending it', async () => {
    const upstream = await range.httpUpstream((request, response) => {
      response.writeHead(200, { 'Content-Length': 1000 })
      response.write('half', () => request.socket.destroy())
    })
    const host = `api.test:${upstream.port}`
    range.setPolicy(range.allow(host))
    const outcome = await curl([...proxyOf(range), `http://${host}/`])
    expect(outcome.code).not.toBe(0)
  })
})

describe('addresses', () => {
  it('refuses a name at a private address, unless the policy says that it may be there', async () => {
    const upstream = await range.httpUpstream((_, response) => response.end('inside'))
    const host = `api.test:${upstream.port}`
    range.setPolicy({ domains: [host], credentials: [] })
    const url = get(`http://${host}/`, host)
    expect((await exchange(range.proxy.port, url)).status).toBe(403)
    range.setPolicy({ domains: [host], credentials: [], allowPrivate: [`api.test:${upstream.port + 1}`] })
    expect((await exchange(range.proxy.port, url)).status).toBe(403)
    range.setPolicy(range.allow(host))
    expect((await exchange(range.proxy.port, url)).body).toContain('inside')
  })

  it('refuses addresses that are written out as well', async () => {
    const targets = ['127.0.0.1', '[::1]', '169.254.169.254', '[::ffff:127.0.0.1]', '[fd00:ec2::254]', '0.0.0.0']
    range.setPolicy({ domains: targets, credentials: [] })
    for (const target of targets) {
      const answer = await exchange(range.proxy.port, get(`http://${target}/`, target))
      expect(answer.body, target).toContain('private or special address')
      expect((await openTunnelTo(range.proxy.port, `${target}:443`)).answer.status, target).toBe(403)
    }
  })
})

describe('a name whose address changes between two looks', () => {
  it('is looked up once, and the connection goes to the address that was judged', async () => {
    const answers = [['192.0.0.1', '10.0.0.1'], ['127.0.0.1']]
    const rebinding = await createEgressRange({
      resolve: async () => answers.shift() ?? [],
      limits: { connectMs: 500 },
    })
    try {
      const upstream = await rebinding.httpUpstream((_, response) => response.end('inside'))
      const host = `rebind.test:${upstream.port}`
      rebinding.setPolicy({ domains: [host], credentials: [] })
      const first = await exchange(rebinding.proxy.port, get(`http://${host}/`, host))
      expect(first).toMatchObject({ status: 403 })
      expect(rebinding.lookups).toEqual(['rebind.test'])
      const second = await exchange(rebinding.proxy.port, get(`http://${host}/`, host))
      expect(second).toMatchObject({ status: 403 })
      expect(upstream.connections()).toBe(0)
    } finally {
      await rebinding.close()
    }
  })

  it('looks a name up once for each connection, also when it is let through', async () => {
    const answers: string[][] = [['127.0.0.1'], ['127.0.0.2']]
    const once = await createEgressRange({ resolve: async () => answers.shift() ?? [] })
    try {
      const upstream = await once.httpUpstream((request, response) => response.end(request.socket.localAddress))
      const { port } = upstream
      once.setPolicy(once.allow(`twice.test:${port}`))
      const answer = await exchange(once.proxy.port, get(`http://twice.test:${port}/`, 'twice.test'))
      expect(answer.body).toContain('127.0.0.1')
      expect(once.lookups).toEqual(['twice.test'])
    } finally {
      await once.close()
    }
  })

  it.each(['HTTP/1.1 042 few', 'HTTP/1.1 200 a\x01b'])(
    'answers 502 to an answer that cannot be sent on: %j',
    async (line) => {
      const upstream = await range.httpUpstream((_request, response) =>
        response.socket!.end(`${line}\r\nContent-Length: 0\r\n\r\n`),
      )
      const host = `api.test:${upstream.port}`
      range.setPolicy(range.allow(host))
      const answer = await exchange(range.proxy.port, get(`http://${host}/`, host))
      expect(answer).toMatchObject({ status: 502 })
      expect(answer.body).toContain('did not answer in HTTP')
    },
  )

  it('answers 502 when the name does not resolve in time', async () => {
    const silent = await createEgressRange({ resolve: () => new Promise(() => {}), limits: { connectMs: 50 } })
    try {
      silent.setPolicy(silent.allow('slow.test:80'))
      const answer = await exchange(silent.proxy.port, get('http://slow.test/', 'slow.test'))
      expect(answer).toMatchObject({ status: 502 })
      expect(answer.body).toContain('does not resolve')
    } finally {
      await silent.close()
    }
  })
})
