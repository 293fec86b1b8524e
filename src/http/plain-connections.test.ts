import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { systemClock } from '../kernel/clock.ts'
import { trackConnections } from './connections.ts'
import { type PlainReply, servePlainRequests } from './plain-connections.ts'

/** One connection, two that serve it: which of them gets which request, and that their answers keep their order. */
type Held = Readonly<{ body: string; reply: PlainReply }>
const closers: (() => Promise<void> | void)[] = []
afterEach(async () => {
  for (const close of closers.splice(0)) await close()
})

async function start(isServed: (body: string) => boolean | Promise<boolean> = () => true) {
  const held: Held[] = []
  const waiting: (() => void)[] = []
  const server = createServer((req, res: ServerResponse) => {
    connections.track(res)
    plain.follow(req, res)
    let body = ''
    req.setEncoding('utf8').on('data', (chunk: string) => {
      body += chunk
    })
    req.on('end', () => res.end(`http ${body}`))
  })
  const connections = trackConnections(server)
  const plain = servePlainRequests({
    server,
    connections,
    clock: systemClock,
    serve(_, bytes, reply) {
      const body = bytes.toString('utf8')
      const served = isServed(body)
      if (served === false) return false
      held.push({ body, reply })
      waiting.shift()?.()
      return served
    },
  })
  const accepted = once(server, 'connection') as Promise<[Socket]>
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  closers.push(() => connections.close(0, () => {}))
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
  socket.on('error', () => {})
  closers.push(() => void socket.destroy())
  let text = ''
  let unread = ''
  let onText = (): void => {}
  socket.on('data', (chunk: Buffer) => {
    const piece = chunk.toString('utf8')
    text += piece
    unread += piece
    onText()
  })
  /** What came, once it contains this. */
  const received = async (part: string): Promise<string> => {
    let searched = text
    unread = ''
    while (!searched.includes(part)) {
      await new Promise<void>((resolve) => {
        onText = resolve
      })
      // Only what is new: to search all of a long answer again for each of its pieces takes very long.
      searched = searched.slice(-part.length) + unread
      unread = ''
    }
    return text
  }
  /** The next request that is served past `node:http`. */
  const next = async (): Promise<Held> => {
    if (held.length === 0) await new Promise<void>((resolve) => waiting.push(resolve))
    return held.shift()!
  }
  const send = (bytes: string): boolean => socket.write(bytes)
  const answered = async (body: string, answer: string): Promise<void> => {
    text = ''
    send(post(body))
    await received(answer)
  }
  const [ours] = await accepted
  return { ours, connections, socket, send, next, received, answered, held, read: () => text }
}

const post = (body: string): string =>
  `POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`

async function warm(isServed?: (body: string) => boolean | Promise<boolean>) {
  const started = await start(isServed)
  await started.answered('first', 'http first')
  return started
}

describe('a connection', () => {
  it('has its first request served by node:http, and plain ones after it past it', async () => {
    const { send, next, received } = await warm()
    for (const body of ['one', 'zwölf']) {
      send(post(body))
      const { reply, body: read } = await next()
      expect(read).toBe(body)
      reply.send(`{"ä":"${body}"}`, { 'x-more': 'yes' })
      expect(await received(`{"ä":"${body}"}`)).toMatch(/x-more: yes\r\n(?:.+\r\n)*Keep-Alive: timeout=65\r\n\r\n/)
    }
  })

  it('goes back and forth between the two', async () => {
    const { send, next, received, answered } = await warm((body) => body.startsWith('plain'))
    await answered('other', 'http other')
    send(post('plain 1'))
    ;(await next()).reply.send('"done 1"')
    await received('"done 1"')
    await answered('another', 'http another')
    send(post('plain 2'))
    ;(await next()).reply.send('"done 2"')
    await received('"done 2"')
  })

  it('waits for a decision that comes later, and goes to node:http if it is against', async () => {
    const decision = Promise.withResolvers<boolean>()
    const { send, next, received } = await warm((body) => (body === 'later' ? decision.promise : true))
    send(post('later'))
    await next()
    decision.resolve(false)
    await received('http later')
    send(post('now'))
    ;(await next()).reply.send('"now"')
    await received('"now"')
  })

  it.each([
    ['two requests at once', post('a') + post('b'), 'http b'],
    ['a request of another method', 'GET /mcp HTTP/1.1\r\nHost: x\r\n\r\n', 'http '],
  ])('belongs to node:http after %s', async (_, bytes, answer) => {
    const { send, received, answered, held } = await warm()
    send(bytes)
    await received(answer)
    await answered('last', 'http last')
    expect(held).toEqual([])
  })

  it('belongs to node:http after a request in pieces', async () => {
    const { send, received, answered, held, ours } = await warm()
    const whole = post('pieces')
    send(whole.slice(0, 30))
    await once(ours, 'data')
    send(whole.slice(30))
    await received('http pieces')
    await answered('last', 'http last')
    expect(held).toEqual([])
  })

  it('answers in order a client that does not wait', async () => {
    const { send, next, read, received, held, ours } = await warm()
    send(post('one'))
    const { reply } = await next()
    send(post('two'))
    await once(ours, 'data')
    reply.send('"one"')
    await received('http two')
    expect(read().indexOf('"one"')).toBeLessThan(read().indexOf('http two'))
    expect(held).toEqual([])
  })

  it('belongs to node:http if the client asks again and does not read', async () => {
    const { send, next, received, socket, ours, held } = await warm()
    socket.pause()
    send(post('one'))
    ;(await next()).reply.send(JSON.stringify('x'.repeat(32 * 1024 * 1024)))
    expect(ours.writableNeedDrain).toBe(true)
    send(post('two'))
    await once(ours, 'data')
    socket.resume()
    await received('http two')
    expect(held).toEqual([])
  })

  it('tells once who serves when the client is gone, and sends nothing then', async () => {
    const { send, next, socket } = await warm()
    send(post('one'))
    const { reply } = await next()
    const gone = new Promise<void>((resolve) => reply.onDisconnected(resolve))
    socket.destroy()
    await gone
    expect(reply.isDisconnected()).toBe(true)
    reply.send('"late"')
  })

  it('is not ended as idle while it is served, and is when it is not', async () => {
    const { ours, socket, send, next, received } = await warm()
    send(post('one'))
    const { reply } = await next()
    ours.emit('timeout')
    expect(ours.destroyed).toBe(false)
    reply.send('"one"')
    await received('"one"')
    ours.emit('timeout')
    await once(socket, 'close')
  })

  it('ends with its answer when the server closes', async () => {
    const { connections, socket, send, next, received } = await warm()
    send(post('one'))
    const { reply } = await next()
    const closed = connections.close(60_000, () => {})
    reply.send('"one"')
    expect(await received('"one"')).toContain('Connection: close\r\n\r\n"one"')
    await once(socket, 'close')
    await closed
  })
})
