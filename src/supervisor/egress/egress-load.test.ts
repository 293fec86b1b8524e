import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import type { RequestListener } from 'node:http'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { afterEach, describe, expect, it, vi } from 'vitest'
import {
  createEgressRange,
  type EgressRange,
  exchange,
  exchangeOn,
  nextChunk,
  openTunnelTo,
  type RangeOptions,
  secureTunnel,
} from '../../../test/support/egress-range.ts'

let range: EgressRange

const start = async (options: RangeOptions = {}): Promise<void> => {
  range = await createEgressRange(options)
}
afterEach(() => range.close())

const becomes = (look: () => unknown, value: unknown): Promise<void> =>
  vi.waitFor(() => expect(look()).toEqual(value), { timeout: 180_000, interval: 10 })

/** A socket notices its end only while something reads from it. */
const ended = async (...sockets: readonly Socket[]): Promise<void> => {
  for (const socket of sockets) socket.resume()
  await becomes(
    () => sockets.map(({ destroyed }) => destroyed),
    sockets.map(() => true),
  )
}

const MEBIBYTE = 1 << 20
const block = Buffer.alloc(MEBIBYTE, 'castellan ')

/** Produces the bytes on demand. */
const manyBytes = (mebibytes: number): Readable =>
  Readable.from(
    (function* () {
      for (let index = 0; index < mebibytes; index++) yield block
    })(),
  )

const digestOf = async (stream: AsyncIterable<Buffer>): Promise<string> => {
  const hash = createHash('sha256')
  for await (const chunk of stream) hash.update(chunk)
  return hash.digest('hex')
}

async function tlsTo(host: string, isOpened: boolean): Promise<Socket> {
  const { socket } = await openTunnelTo(range.proxy.port, host)
  const path = isOpened ? range.authorityPath : join(range.directory, 'trusted.pem')
  return secureTunnel(socket, { servername: 'api.test', ca: await readFile(path, 'utf8') })
}

describe('large bodies', () => {
  it.each([
    ['through a blind tunnel', false],
    ['where credentials are added', true],
  ])('go both ways unharmed %s', async (_, isOpened) => {
    await start()
    const upstream = await range.httpsUpstream(['api.test'], async (request, response) => {
      response.setHeader('X-Digest', await digestOf(request))
      manyBytes(24).pipe(response)
    })
    const host = `api.test:${upstream.port}`
    const credentials = isOpened ? [{ host, header: 'X-Key', value: 'castellan castellan secret' }] : []
    range.setPolicy({ ...range.allow(host), credentials })
    const secured = await tlsTo(host, isOpened)
    const length = 24 * MEBIBYTE
    secured.write(`POST / HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\nContent-Length: ${length}\r\n\r\n`)
    manyBytes(24).pipe(secured, { end: false })
    let received = 0
    let head = ''
    for (let chunk = await nextChunk(secured); chunk !== undefined; chunk = await nextChunk(secured)) {
      if (!head.includes('\r\n\r\n')) head += chunk.toString('latin1')
      received += chunk.length
    }
    expect(head).toContain(`X-Digest: ${await digestOf(manyBytes(24))}`)
    expect(received).toBeGreaterThan(length)
  })

  it('wait for a slow workload instead of piling up in the proxy', async () => {
    await start()
    let sent = 0
    let isPaused = false
    const upstream = await range.httpUpstream((_, response) => {
      const push = (): void => {
        while (sent < 512 * MEBIBYTE) {
          sent += block.length
          isPaused = !response.write(block)
          if (isPaused) return void response.once('drain', push)
        }
        response.end()
      }
      response.once('close', () => {
        sent = Number.MAX_SAFE_INTEGER
      })
      push()
    })
    const host = `api.test:${upstream.port}`
    range.setPolicy(range.allow(host))
    const before = process.memoryUsage().arrayBuffers
    const socket = connect(range.proxy.port, '127.0.0.1')
    socket.on('error', () => {})
    socket.write(`GET http://${host}/ HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
    expect(await nextChunk(socket)).toBeDefined()
    socket.pause()
    let last = -1
    await vi.waitFor(
      () => {
        const isStill = isPaused && sent === last
        last = sent
        expect(isStill).toBe(true)
      },
      { timeout: 180_000, interval: 300 },
    )
    expect(sent).toBeLessThan(128 * MEBIBYTE)
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(64 * MEBIBYTE)
    socket.destroy()
    await becomes(() => upstream.connections(), 0)
  })
})

describe('many connections', () => {
  it('are all served, and nothing is left of them', async () => {
    await start()
    const upstream = await range.httpsUpstream(['api.test'], (request, response) => response.end(request.url))
    const plain = await range.httpUpstream((request, response) => response.end(request.url))
    const host = `api.test:${upstream.port}`
    const plainHost = `api.test:${plain.port}`
    range.setPolicy(range.allow(host, plainHost))
    const answers = await Promise.all(
      Array.from({ length: 60 }, async (_, index) => {
        const text = (url: string): string => `GET ${url} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`
        if (index % 2 === 0) return exchange(range.proxy.port, text(`http://${plainHost}/${index}`))
        return exchangeOn(await tlsTo(host, false), text(`/${index}`))
      }),
    )
    expect(answers.map(({ body }) => body.match(/\/\d+/)?.[0])).toEqual(answers.map((_, index) => `/${index}`))
    await becomes(() => range.proxy.counters().connectionsOpen, 0)
    await becomes(() => upstream.connections() + plain.connections(), 0)
    expect(range.proxy.counters()).toMatchObject({ connectionsTotal: 60, refused: {} })
  })

  it('are ended by close, tunnels in use included', async () => {
    await start()
    const upstream = await range.httpsUpstream(['api.test'], (_, response) => response.write('never ends'))
    const host = `api.test:${upstream.port}`
    range.setPolicy(range.allow(host))
    const sockets = await Promise.all(Array.from({ length: 5 }, () => tlsTo(host, false)))
    for (const socket of sockets) socket.write(`GET / HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
    for (const socket of sockets) expect(await nextChunk(socket)).toBeDefined()
    await range.proxy.close()
    await ended(...sockets)
    await becomes(() => upstream.connections(), 0)
    await expect(exchange(range.proxy.port, 'GET / HTTP/1.1\r\n\r\n')).rejects.toThrow(/ECONNREFUSED/)
  })

  it('are refused above the limit of one address, and served again when others have gone', async () => {
    await start({ limits: { connectionsPerAddressMax: 2 } })
    const upstream = await range.httpUpstream((_, response) => response.end('fine'))
    const host = `api.test:${upstream.port}`
    range.setPolicy(range.allow(host))
    const idle = [connect(range.proxy.port, '127.0.0.1'), connect(range.proxy.port, '127.0.0.1')]
    for (const socket of idle) socket.on('error', () => {})
    await becomes(() => range.proxy.counters().connectionsOpen, 2)
    const text = `GET http://${host}/ HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`
    expect(await exchange(range.proxy.port, text)).toMatchObject({ status: 503 })
    expect((await openTunnelTo(range.proxy.port, host)).answer.status).toBe(503)
    for (const socket of idle) socket.destroy()
    await becomes(() => range.proxy.counters().connectionsOpen, 0)
    expect(await exchange(range.proxy.port, text)).toMatchObject({ status: 200 })
    expect(range.proxy.counters().refused).toEqual({ 'too-many-connections': 2 })
  })

  it('cannot be had by sending many requests ahead on one', async () => {
    await start({ limits: { pendingRequestsMax: 3 } })
    let requests = 0
    const upstream = await range.httpUpstream(() => {
      requests += 1
    })
    const host = `api.test:${upstream.port}`
    range.setPolicy(range.allow(host))
    const socket = connect(range.proxy.port, '127.0.0.1')
    socket.on('error', () => {})
    socket.write(`GET http://${host}/ HTTP/1.1\r\nHost: ${host}\r\n\r\n`.repeat(20))
    await becomes(() => range.proxy.counters().refused['too-many-connections'], 17)
    await becomes(() => requests, 3)
    expect(upstream.connections()).toBe(3)
    socket.destroy()
    await becomes(() => upstream.connections(), 0)
  })
})

describe('connections on which nothing happens', () => {
  it('are closed, whatever they are', async () => {
    await start({ limits: { idleMs: 1500, helloMs: 1500 } })
    const upstream = await range.httpsUpstream(['api.test'], () => {})
    const plainUpstream = await range.httpUpstream(() => {})
    const host = `api.test:${upstream.port}`
    const plainHost = `api.test:${plainUpstream.port}`
    range.setPolicy(range.allow(host, plainHost))
    const silent = connect(range.proxy.port, '127.0.0.1')
    silent.on('error', () => {})
    const { socket: noHello } = await openTunnelTo(range.proxy.port, host)
    const blind = await tlsTo(host, false)
    blind.write(`GET / HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
    const plain = connect(range.proxy.port, '127.0.0.1')
    plain.on('error', () => {})
    plain.write(`GET http://${plainHost}/ HTTP/1.1\r\nHost: ${plainHost}\r\n\r\n`)
    for (const socket of [silent, noHello, blind, plain]) {
      expect(await nextChunk(socket)).toBeUndefined()
    }
    await becomes(() => range.proxy.counters().connectionsOpen, 0)
    await becomes(() => upstream.connections() + plainUpstream.connections(), 0)
  })

  it('are kept while something moves in one direction', async () => {
    await start({ limits: { idleMs: 1500 } })
    const drip: RequestListener = async (_, response) => {
      for (let count = 0; count < 10; count++) {
        response.write('.')
        await new Promise((resolve) => setTimeout(resolve, 250))
      }
      response.end('done')
    }
    const blind = `api.test:${(await range.httpsUpstream(['api.test'], drip)).port}`
    const opened = `api.test:${(await range.httpsUpstream(['api.test'], drip)).port}`
    const credentials = [{ host: opened, header: 'X-Key', value: 'secret-secret' }]
    range.setPolicy({ ...range.allow(blind, opened), credentials })
    const answers = await Promise.all(
      [blind, opened].map(async (host) => {
        const socket = await tlsTo(host, host === opened)
        return exchangeOn(socket, `GET / HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`)
      }),
    )
    for (const { body } of answers) expect(body).toContain('done')
  })
})

describe('a policy that changes', () => {
  it('ends what it does not allow any more, and nothing else', async () => {
    await start()
    const upstream = await range.httpsUpstream(['api.test'], (_, response) => response.write('never ends'))
    const other = await range.httpUpstream((_, response) => response.write('never ends'))
    const host = `api.test:${upstream.port}`
    const otherHost = `api.test:${other.port}`
    range.setPolicy(range.allow(host, otherHost))
    const tunnel = await tlsTo(host, false)
    tunnel.write(`GET / HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
    const plain = connect(range.proxy.port, '127.0.0.1')
    plain.on('error', () => {})
    plain.write(`GET http://${otherHost}/ HTTP/1.1\r\nHost: ${otherHost}\r\n\r\n`)
    for (const socket of [tunnel, plain]) {
      expect(await nextChunk(socket)).toBeDefined()
    }
    expect(range.proxy.policyChanged('127.0.0.1')).toBe(0)
    range.setPolicy(range.allow(otherHost))
    expect(range.proxy.policyChanged('127.0.0.2')).toBe(0)
    expect(range.proxy.policyChanged('127.0.0.1')).toBe(1)
    await ended(tunnel)
    await becomes(() => upstream.connections(), 0)
    expect(plain.destroyed).toBe(false)
    range.setPolicy({ ...range.allow(otherHost), credentials: [{ host: otherHost, header: 'X-Key', value: 'secret' }] })
    expect(range.proxy.policyChanged('127.0.0.1')).toBe(1)
    await ended(plain)
  })
})

describe('the log', () => {
  it('names a refusal once, however often it is asked for, and no secret', async () => {
    const lines: unknown[] = []
    const write = (message: string, fields?: Record<string, unknown>): void => void lines.push({ message, ...fields })
    await start({ logger: { debug: write, info: write, warn: write, error: write } })
    range.setPolicy({ domains: [], credentials: [{ host: 'api.test', header: 'X-Key', value: 'secret-secret' }] })
    for (let count = 0; count < 3; count++) {
      await exchange(range.proxy.port, 'GET http://api.test/ HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n\r\n')
    }
    expect(lines).toEqual([
      { message: 'egress refused', address: '127.0.0.1', target: 'api.test:80', reason: 'host-not-allowed' },
    ])
  })
})
