import { gzipSync } from 'node:zlib'
import { afterEach, describe, expect, it } from 'vitest'
import { addElsewhere, addHostAddress } from '../../test/support/network-bench.ts'
import { answer, type Route, serveWeb, type WebServer } from '../../test/support/web-server.ts'
import { createHttpClient, type HttpClientDeps } from './http-client.ts'

let servers: WebServer[] = []
afterEach(async () => {
  for (const server of servers) await server[Symbol.asyncDispose]()
  servers = []
})
async function serve(routes: Record<string, Route>, address?: string): Promise<WebServer> {
  const server = await serveWeb(routes, address)
  servers.push(server)
  return server
}

const get = (url: string, deps: Partial<HttpClientDeps> = {}, more: object = {}) =>
  createHttpClient({ allowedNetworks: [], ...deps }).send({
    url: new URL(url),
    method: 'GET',
    headers: {},
    bytesMax: 100_000,
    signal: new AbortController().signal,
    trusted: false,
    ...more,
  })
const private_ = { code: 'ERR_POLICY_VIOLATION', details: { violation: 'DomainNotAllowed', reason: 'private_address' } }

describe('a private address', () => {
  it.each([
    'http://127.0.0.1/',
    'http://127.1/',
    'http://2130706433/',
    'http://0x7f.0.0.1/',
    'http://017700000001/',
    'http://0.0.0.0/',
    'http://10.1.2.3/',
    'http://172.16.0.1/',
    'http://192.168.1.1/',
    'http://169.254.169.254/latest/meta-data/',
    'http://100.100.100.200/',
    'http://168.63.129.16/',
    'http://[::1]/',
    'http://[::]/',
    'http://[::ffff:127.0.0.1]/',
    'http://[::ffff:a9fe:a9fe]/',
    'http://[fe80::1]/',
    'http://[fd00::1]/',
    'http://[64:ff9b::7f00:1]/',
    'http://[2002:7f00:1::]/',
    'http://localhost/',
  ])('is refused: %s', async (url) => {
    await expect(get(url)).rejects.toMatchObject(private_)
  })

  it('is refused behind a name, whatever else the name has', async () => {
    const { port } = await serve({ '/': answer('secret') })
    const resolve = async () => ['127.0.0.1', '::1', '10.0.0.1']
    await expect(get(`http://evil.test:${port}/`, { resolve })).rejects.toMatchObject(private_)
    await expect(get('http://evil.test/', { resolve: async () => [] })).rejects.toMatchObject(private_)
    await expect(get('http://evil.test/', { resolve: async () => ['fe80::1%eth0'] })).rejects.toMatchObject(private_)
  })

  it('may be configured, alone or as a network', async () => {
    const server = await serve({ '/': answer('ok') })
    for (const network of ['127.0.0.1', '127.0.0.0/8']) {
      expect((await get(server.at('/'), { allowedNetworks: [network] })).body.toString()).toBe('ok')
    }
    await expect(get(server.at('/'), { allowedNetworks: ['127.0.0.2', '::1'] })).rejects.toMatchObject(private_)
    expect((await get(server.at('/'), {}, { trusted: true })).body.toString()).toBe('ok')
  })
})

describe('a public address', () => {
  const address = '203.0.113.77'
  it('is refused while this machine has it, in every spelling and behind a name, unless configured', async () => {
    const release = addHostAddress(address)
    try {
      const server = await serve({ '/': answer('secret') }, address)
      const resolve = async () => [address]
      for (const host of [address, '0xcb.0.0x71.77', '3405803853', 'named.test']) {
        await expect(get(server.at('/', host), { resolve })).rejects.toMatchObject(private_)
      }
      expect((await get(server.at('/'), { allowedNetworks: [address] })).body.toString()).toBe('secret')
    } finally {
      release()
    }
  })

  it('is reached where the machine no longer has it', async () => {
    addHostAddress(address)()
    const release = addElsewhere(address)
    try {
      const server = await serve({ '/': answer('elsewhere') }, address)
      expect((await get(server.at('/'))).body.toString()).toBe('elsewhere')
    } finally {
      release()
    }
  })
})

describe('a name', () => {
  it('is asked once, and the address that was judged is connected to', async () => {
    const judged = await serve({ '/': (request, response) => void response.end(request.headers.host) }, '127.0.0.2')
    const asked: string[] = []
    const resolve = async (host: string) => {
      asked.push(host)
      return asked.length === 1 ? ['10.0.0.1', '127.0.0.2'] : ['127.0.0.1']
    }
    const found = await get(`http://rebound.test:${judged.port}/`, { resolve, allowedNetworks: ['127.0.0.2'] })
    expect([found.body.toString(), asked]).toEqual([`rebound.test:${judged.port}`, ['rebound.test']])
  })

  it('with several addresses is reached at the first that answers, of those that may be', async () => {
    const server = await serve({ '/': answer('ok') }, '127.0.0.2')
    const resolve = async () => ['127.0.0.5', '127.0.0.4', '127.0.0.2']
    const at = `http://many.test:${server.port}/`
    const found = await get(at, { resolve, allowedNetworks: ['127.0.0.4', '127.0.0.2'] })
    expect(found.body.toString()).toBe('ok')
    await expect(get(at, { resolve, allowedNetworks: ['127.0.0.4'] })).rejects.toMatchObject({
      code: 'ERR_WEB_FAILED',
      details: { reason: 'ECONNREFUSED' },
    })
    expect(server.requests).toHaveLength(1)
  })

  it('that nobody knows is said to be so', async () => {
    await expect(get('http://nowhere.invalid/')).rejects.toMatchObject({ code: 'ERR_WEB_FAILED' })
  })
})

describe('an answer', () => {
  const allowedNetworks = ['127.0.0.1']
  it('is bounded as it comes and as it unfolds', async () => {
    const server = await serve({
      '/long': answer('x'.repeat(200_000)),
      '/endless': (_request, response) => {
        const more = (): void => void (response.destroyed || response.write('x'.repeat(10_000), more))
        more()
      },
      '/bomb': answer(gzipSync(Buffer.alloc(50_000_000)), 'text/plain', { 'content-encoding': 'gzip' }),
      '/zipped': answer(gzipSync('small'), 'text/plain', { 'content-encoding': 'gzip' }),
      '/odd': answer('x', 'text/plain', { 'content-encoding': 'zstd' }),
      '/broken': answer('not gzip', 'text/plain', { 'content-encoding': 'gzip' }),
    })
    for (const path of ['/long', '/endless', '/bomb']) {
      await expect(get(server.at(path), { allowedNetworks })).rejects.toMatchObject({ code: 'ERR_TOO_LARGE' })
    }
    expect((await get(server.at('/zipped'), { allowedNetworks })).body.toString()).toBe('small')
    for (const path of ['/odd', '/broken']) {
      await expect(get(server.at(path), { allowedNetworks })).rejects.toMatchObject({ code: 'ERR_WEB_FAILED' })
    }
  })

  it('may be empty whatever it says of its encoding', async () => {
    const server = await serve({
      '/gzip': (_request, response) =>
        void response.writeHead(302, { location: '/', 'content-encoding': 'gzip', 'content-length': '0' }).end(),
      '/br': answer('', 'text/plain', { 'content-encoding': 'br' }),
      '/cut': answer(gzipSync('x'.repeat(1_000)).subarray(0, 20), 'text/plain', { 'content-encoding': 'gzip' }),
    })
    expect(await get(server.at('/gzip'), { allowedNetworks })).toMatchObject({ status: 302, location: '/' })
    expect((await get(server.at('/br'), { allowedNetworks })).body).toHaveLength(0)
    await expect(get(server.at('/cut'), { allowedNetworks })).rejects.toMatchObject({ code: 'ERR_WEB_FAILED' })
  })

  it('that breaks off or never comes is an error', async () => {
    const server = await serve({
      '/cut': (_request, response) => {
        response.writeHead(200, { 'content-length': '100' }).write('half', () => response.destroy())
      },
      '/silent': () => {},
    })
    await expect(get(server.at('/cut'), { allowedNetworks })).rejects.toMatchObject({ code: 'ERR_WEB_FAILED' })
    const finalizer = new AbortController()
    const waiting = get(server.at('/silent'), { allowedNetworks }, { signal: finalizer.signal })
    await expect.poll(() => server.requests.length).toBe(2)
    finalizer.abort()
    await expect(waiting).rejects.toMatchObject({ code: 'ERR_TIMED_OUT' })
  })
})
