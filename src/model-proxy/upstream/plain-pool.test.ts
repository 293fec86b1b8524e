import { once } from 'node:events'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { createPlainPool } from './plain-pool.ts'
import {
  type UpstreamBounds,
  type UpstreamController,
  type UpstreamPool,
  type UpstreamRequest,
  UpstreamTimeout,
} from './ports.ts'

const bounds: UpstreamBounds = {
  connections: 4,
  connectTimeoutMs: 60_000,
  answerTimeoutMs: 60_000,
  idleTimeoutMs: 60_000,
  keepAliveMs: 60_000,
}
const closers: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close()
})

/** An upstream that is told what to send, and what it got on each connection. */
async function start(more: Partial<UpstreamBounds> = {}, onConnection: (socket: Socket) => void = () => {}) {
  const sockets: Socket[] = []
  const received: Buffer[][] = []
  const server: Server = createServer((socket) => {
    const parts: Buffer[] = []
    received.push(parts)
    sockets.push(socket)
    socket.on('error', () => socket.destroy())
    socket.on('data', (part: Buffer) => {
      parts.push(part)
      server.emit('received')
    })
    onConnection(socket)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const pool = createPlainPool(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, { ...bounds, ...more })
  closers.push(() => {
    for (const socket of sockets) socket.destroy()
    return new Promise((resolve) => server.close(resolve))
  })
  closers.push(() => pool.destroy())
  const textOf = (index: number): string => Buffer.concat(received[index] ?? []).toString('latin1')
  /** The socket of this connection, once it has sent this text so often. */
  const seen = async (index: number, text: string, times = 1): Promise<Socket> => {
    while (textOf(index).split(text).length <= times) await once(server, 'received')
    return sockets[index]!
  }
  return { server, pool, sockets, textOf, seen }
}

function ask(pool: UpstreamPool, request: Partial<UpstreamRequest> = {}) {
  let body = ''
  let status = 0
  let controller: UpstreamController | undefined
  const events: string[] = []
  const answered = Promise.withResolvers<string>()
  answered.promise.catch(() => {})
  const started = Promise.withResolvers<void>()
  pool.dispatch(
    { method: 'POST', path: '/v1/chat', headers: ['x-a', 'b'], ...request },
    {
      onRequestStart(one) {
        controller = one
        events.push('start')
      },
      onResponseStart(_, code) {
        status = code
        events.push(`head ${code}`)
      },
      onResponseData(_, chunk) {
        body += chunk.toString('latin1')
        events.push('data')
        started.resolve()
      },
      onResponseEnd() {
        events.push('end')
        answered.resolve(`${status} ${body}`)
      },
      onResponseError(_, error) {
        events.push('error')
        answered.reject(error)
      },
    },
  )
  return {
    answer: answered.promise,
    started: started.promise,
    events,
    bytes: () => body.length,
    controller: () => controller,
  }
}

const OK = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok'
const BODY = Buffer.from('{"ä":1}')

describe('a request', () => {
  it('is one write with its host, its headers and its body as it is', async () => {
    const { pool, seen, textOf } = await start()
    const { answer } = ask(pool, { body: BODY, headers: ['content-length', String(BODY.length), 'x-é', 'é'] })
    const socket = await seen(0, '}')
    expect(textOf(0)).toMatch(
      /^POST \/v1\/chat HTTP\/1\.1\r\nhost: 127\.0\.0\.1:\d+\r\nconnection: keep-alive\r\ncontent-length: 8\r\nx-é: é\r\n\r\n/,
    )
    expect(textOf(0).endsWith(BODY.toString('latin1'))).toBe(true)
    socket.write(OK)
    expect(await answer).toBe('200 ok')
  })

  it('may be long', async () => {
    const { pool, seen, textOf } = await start()
    const body = Buffer.alloc(3 * 1024 * 1024, 'äö')
    const { answer } = ask(pool, { body: Buffer.concat([body, Buffer.from('!')]) })
    ;(await seen(0, '!')).write(OK)
    await answer
    expect(textOf(0).endsWith(`${body.toString('latin1')}!`)).toBe(true)
  })

  it('uses the connection of an earlier one, and another while that is in use', async () => {
    const { pool, seen, sockets } = await start()
    const first = ask(pool)
    ;(await seen(0, 'POST')).write(OK)
    await first.answer
    const second = ask(pool)
    await seen(0, 'POST', 2)
    const third = ask(pool)
    ;(await seen(1, 'POST')).write(OK)
    await third.answer
    sockets[0]!.write(OK)
    await second.answer
    expect(sockets).toHaveLength(2)
  })

  it.each([
    ['says that it ends it', 'HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok'],
    ['sends more than its answer', `${OK}more`],
    ['will soon end it', 'HTTP/1.1 200 OK\r\nkeep-alive: timeout=1\r\ncontent-length: 2\r\n\r\nok'],
  ])('does not use the connection of an upstream that %s', async (_, bytes) => {
    const { pool, seen, sockets } = await start()
    const first = ask(pool)
    ;(await seen(0, 'POST')).write(bytes)
    expect(await first.answer).toBe('200 ok')
    const second = ask(pool)
    ;(await seen(1, 'POST')).write(OK)
    await second.answer
    expect(sockets).toHaveLength(2)
  })

  it('does not use a connection on which something came that nobody asked for', async () => {
    const { pool, seen, sockets } = await start()
    const first = ask(pool)
    ;(await seen(0, 'POST')).write(OK)
    await first.answer
    sockets[0]!.write(OK)
    await once(sockets[0]!, 'close')
    const second = ask(pool)
    ;(await seen(1, 'POST')).write(OK.replace('ok', 'me'))
    expect(await second.answer).toBe('200 me')
  })

  it('waits for a connection if there are as many as there may be', async () => {
    const { pool, seen, sockets } = await start({ connections: 1 })
    const asked = [ask(pool), ask(pool), ask(pool)]
    for (const [index, { answer, events }] of asked.entries()) {
      const socket = await seen(0, 'POST', index + 1)
      for (const later of asked.slice(index + 1)) expect(later.events).toEqual([])
      socket.write(OK)
      await answer
      expect(events).toEqual(['start', 'head 200', 'data', 'end'])
    }
    expect(sockets).toHaveLength(1)
  })

  it('that waits gets a new connection if the one in use breaks', async () => {
    const { pool, seen } = await start({ connections: 1 })
    const [first, second] = [ask(pool), ask(pool)]
    ;(await seen(0, 'POST')).destroy()
    await expect(first.answer).rejects.toThrow()
    ;(await seen(1, 'POST')).write(OK)
    expect(await second.answer).toBe('200 ok')
  })

  it('is sent once, and fails if nobody answers', async () => {
    const { pool, seen, sockets } = await start()
    const { answer, events } = ask(pool)
    ;(await seen(0, 'POST')).destroy()
    await expect(answer).rejects.toThrow()
    expect(events).toEqual(['start', 'error'])
    expect(sockets).toHaveLength(1)
  })

  it('that nobody accepts fails without having been sent', async () => {
    const { server, pool } = await start()
    await new Promise((resolve) => server.close(resolve))
    const { answer, events } = ask(pool)
    await expect(answer).rejects.toMatchObject({ code: 'ECONNREFUSED' })
    expect(events).toEqual(['error'])
    closers.shift()
  })

  it.each([
    [{ headers: ['authorization', 'Bearer a\r\nx-b: c'] }],
    [{ headers: ['authorization', 'Bearer \u2026'] }],
    [{ path: '/a b' }],
  ])('that would be read as another is not sent: %j', async (request) => {
    const { pool, seen, textOf } = await start()
    await expect(ask(pool, request).answer).rejects.toThrow('a character')
    const next = ask(pool)
    ;(await seen(0, 'POST')).write(OK)
    await next.answer
    expect(textOf(0)).toMatch(/^POST \/v1\/chat HTTP\/1\.1\r\n/)
  })
})

describe('an answer', () => {
  const head = 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n'

  it('passes as it comes', async () => {
    const { pool, seen } = await start()
    const { answer, started, events } = ask(pool)
    const socket = await seen(0, 'POST')
    socket.write(`${head}1\r\na\r\n1\r\nb\r\n`)
    await started
    expect(events).toEqual(['start', 'head 200', 'data'])
    socket.write('1\r\nc\r\n0\r\n\r\n')
    expect(await answer).toBe('200 abc')
  })

  it.each([
    ['breaks off', `${head}1\r\na\r\n`],
    ['is shorter than it says', 'HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok'],
    ['has a part of a head only', 'HTTP/1.1 200 OK\r\n'],
    ['is none', 'what?\r\n\r\n'],
  ])('that %s is an error', async (_, bytes) => {
    const { pool, seen } = await start()
    const { answer, events } = ask(pool)
    ;(await seen(0, 'POST')).end(bytes)
    await expect(answer).rejects.toThrow()
    expect(events.at(-1)).toBe('error')
  })

  it('may end with its connection', async () => {
    const { pool, seen } = await start()
    const { answer } = ask(pool)
    ;(await seen(0, 'POST')).end('HTTP/1.1 200 OK\r\n\r\nall of it')
    expect(await answer).toBe('200 all of it')
  })

  it('that does not begin, or stops, is given up', async () => {
    const { pool, seen } = await start({ answerTimeoutMs: 20, idleTimeoutMs: 20 })
    const silent = ask(pool)
    await expect(silent.answer).rejects.toThrow(UpstreamTimeout)
    const stopped = ask(pool)
    ;(await seen(1, 'POST')).write(`${head}1\r\na\r\n`)
    await expect(stopped.answer).rejects.toThrow(UpstreamTimeout)
    expect(silent.events).toEqual(['start', 'error'])
  })

  it('is not read while it is paused, and loses nothing', async () => {
    const { pool, seen } = await start()
    const asked = ask(pool)
    const socket = await seen(0, 'POST')
    socket.write('HTTP/1.1 200 OK\r\ncontent-length: 32000001\r\n\r\nx')
    await asked.started
    asked.controller()!.pause()
    const before = asked.bytes()
    let isWritten = false
    socket.write('x'.repeat(32_000_000), () => {
      isWritten = true
    })
    // Another connection comes and goes meanwhile.
    const other = ask(pool)
    ;(await seen(1, 'POST')).write(OK)
    await other.answer
    expect([isWritten, asked.bytes()]).toEqual([false, before])
    asked.controller()!.resume()
    await asked.answer
    expect(asked.bytes()).toBe(32_000_001)
  })

  it('that is not wanted any more ends with its connection, and nothing more is heard of it', async () => {
    const { pool, seen, sockets } = await start()
    const asked = ask(pool)
    const socket = await seen(0, 'POST')
    socket.write(`${head}1\r\na\r\n`)
    await asked.started
    asked.controller()!.abort(new Error('enough'))
    await once(socket, 'close')
    const next = ask(pool)
    ;(await seen(1, 'POST')).write(OK)
    await next.answer
    // It has no effect on the requests of others.
    asked.controller()!.abort(new Error('enough'))
    asked.controller()!.pause()
    expect(asked.events).toEqual(['start', 'head 200', 'data'])
    expect(sockets).toHaveLength(2)
  })
})

describe('connections', () => {
  it('that nobody uses are closed after a time', async () => {
    const { pool, seen } = await start({ keepAliveMs: 20 })
    const { answer } = ask(pool)
    const socket = await seen(0, 'POST')
    socket.write(OK)
    await answer
    await once(socket, 'close')
  })

  it('are closed with the pool, and what is under way fails', async () => {
    const { pool, seen } = await start({ connections: 1 })
    const asked = [ask(pool), ask(pool)]
    const socket = await seen(0, 'POST')
    await Promise.all([once(socket, 'close'), pool.destroy()])
    for (const { answer } of [...asked, ask(pool)]) await expect(answer).rejects.toThrow('closed')
  })
})
