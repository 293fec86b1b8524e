import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import { newDataDir } from '../support/real-server.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'

/**
 * The first request of a connection is served by `node:http`, and later ones past it. Both must be served alike, byte for byte.
 * The provider writes HTTP by hand.
 */
let provider: Server
let server: ServerHere
let port: number
let answer: (socket: Socket, body: string) => void
/** How many requests of a client `node:http` has served, by its port. */
const servedByNode = new Map<number, number>()
const count = (message: unknown): void => {
  const { remotePort } = (message as { socket: Socket }).socket
  servedByNode.set(remotePort!, (servedByNode.get(remotePort!) ?? 0) + 1)
}
const providerSockets = new Set<Socket>()
const clients: Socket[] = []

beforeAll(async () => {
  subscribe('http.server.request.start', count)
  provider = createServer((socket) => {
    providerSockets.add(socket)
    let text = ''
    socket.on('error', () => socket.destroy())
    socket.on('close', () => providerSockets.delete(socket))
    socket.on('data', (part: Buffer) => {
      text += part.toString('latin1')
      const start = text.indexOf('\r\n\r\n') + 4
      const length = Number(/content-length: (\d+)/.exec(text)?.[1])
      if (start === 3 || text.length < start + length) return
      const body = text.slice(start)
      text = ''
      answer(socket, body)
    })
  })
  provider.listen(0, '127.0.0.1')
  await once(provider, 'listening')
  const endpoint = `http://127.0.0.1:${(provider.address() as AddressInfo).port}/v1`
  const dataDir = newDataDir()
  const models = [{ alias: 'default', model: 'm', input_cost_per_million: 1, output_cost_per_million: 1 }]
  const providers = [
    { name: 'raw', type: 'openai-compatible', endpoint, models },
    {
      name: 'closed',
      type: 'openai-compatible',
      endpoint: 'http://127.0.0.1:1/v1',
      models: [{ alias: 'none', model: 'n' }],
    },
  ]
  writeFileSync(join(dataDir, 'castellan.yaml'), JSON.stringify({ models: { providers } }), { mode: 0o600 })
  server = await startServerHere({ dataDir })
  port = Number(new URL(server.url).port)
})
afterAll(async () => {
  unsubscribe('http.server.request.start', count)
  for (const socket of clients) socket.destroy()
  await server.stop()
  for (const socket of providerSockets) socket.destroy()
  provider.close()
})
beforeEach(() => {
  answer = (socket) => socket.write(WHOLE)
})

const JSON_ANSWER = '{"id":"x","model":"m","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2},"e":"\u00e9"}'
const WHOLE = Buffer.from(
  `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nx-a: 1\r\nX-A: 2\r\nset-cookie: a=b\r\ncontent-length: ${Buffer.byteLength(JSON_ANSWER)}\r\n\r\n${JSON_ANSWER}`,
)
const chunk = (text: string): string => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`
const event = (text: string): string => `data: ${JSON.stringify({ choices: [{ delta: { content: text } }] })}\n\n`
const STREAM_HEAD = 'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n'
const USAGE = 'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}\n\ndata: [DONE]\n\n'

/** A connection that sends one request after the other. */
function open() {
  const socket = connect(port, '127.0.0.1')
  clients.push(socket)
  let parts: Buffer[] = []
  let wake = (): void => {}
  socket.on('error', () => socket.destroy())
  socket.on('data', (part: Buffer) => {
    parts.push(part)
    wake()
  })
  socket.on('close', () => wake())
  const next = (): Promise<void> =>
    new Promise((resolve) => {
      wake = resolve
    })
  const textSoFar = (): string => Buffer.concat(parts).toString('latin1')
  /** What came, once it is as it should be. */
  const until = async (isThere: (text: string) => boolean): Promise<string> => {
    while (!isThere(textSoFar())) {
      if (socket.destroyed) throw new Error('the connection ended')
      await next()
    }
    return textSoFar()
  }
  /** The same for a long stream, of which only the end is looked at. */
  const untilLastChunk = async (): Promise<string> => {
    while (!Buffer.concat(parts.slice(-5)).toString('latin1').endsWith('\r\n0\r\n\r\n')) await next()
    return textSoFar()
  }
  const send = (body: string, path = '/v1/raw/chat/completions', ...fields: readonly string[]): void => {
    parts = []
    const lines = [`POST ${path} HTTP/1.1`, `Host: 127.0.0.1:${port}`, 'content-type: application/json', ...fields]
    socket.write(`${lines.join('\r\n')}\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`)
  }
  const ask = async (...request: Parameters<typeof send>): Promise<string> => {
    send(...request)
    return joined(await until(isWhole))
  }
  return { socket, send, until, untilLastChunk, ask, seenByNode: () => servedByNode.get(socket.localPort!) }
}

function isWhole(text: string): boolean {
  const start = text.indexOf('\r\n\r\n') + 4
  if (start === 3) return false
  const [, length] = /content-length: (\d+)/i.exec(text.slice(0, start)) ?? []
  return length === undefined ? text.endsWith('\r\n0\r\n\r\n') : text.length >= start + Number(length)
}

/** Without the date, and with the chunks of a body joined: where they are cut depends on the reads. */
function joined(text: string): string {
  const start = text.indexOf('\r\n\r\n') + 4
  const head = text.slice(0, start).replace(/\r\nDate: .*\r\n/, '\r\n')
  if (!/transfer-encoding: chunked/i.test(head)) return head + text.slice(start)
  let body = ''
  for (let at = start; ; ) {
    const end = text.indexOf('\r\n', at)
    const size = Number.parseInt(text.slice(at, end), 16)
    if (size === 0) return head + body
    body += text.slice(end + 2, end + 2 + size)
    at = end + 2 + size + 2
  }
}

const CHAT = '{"model":"m","messages":[]}'
const STREAM = '{"model":"m","messages":[],"stream":true}'

/** As `node:http` serves it, and as it is served past it. */
async function bothWays(...request: Parameters<ReturnType<typeof open>['send']>): Promise<[string, string]> {
  const fresh = open()
  const byNode = await fresh.ask(...request)
  fresh.socket.destroy()
  const warm = open()
  await warm.ask(CHAT)
  const past = await warm.ask(...request)
  // The connection is as good as before.
  expect(await warm.ask(CHAT)).toBe(await warm.ask(CHAT))
  warm.socket.destroy()
  return [byNode, past]
}

it('a whole answer has the same bytes', async () => {
  const [byNode, past] = await bothWays(CHAT)
  expect(past).toBe(byNode)
  const { ask, seenByNode } = open()
  for (let turn = 0; turn < 4; turn++) await ask(CHAT)
  expect(seenByNode()).toBe(1)
  expect(past).toContain(`\r\n\r\n${Buffer.from(JSON_ANSWER).toString('latin1')}`)
})

it('a stream has the same bytes', async () => {
  answer = (socket, body) => {
    if (!body.includes('"stream":true')) socket.write(WHOLE)
    else socket.write(STREAM_HEAD + chunk(event('a')) + chunk(event('\u00e9')) + chunk(USAGE) + chunk(''))
  }
  const [byNode, past] = await bothWays(STREAM)
  expect(past).toBe(byNode)
  expect(past).toContain(event('a'))
  expect(past).not.toContain('usage')
  expect(past).toMatch(/Keep-Alive: timeout=\d+\r\nTransfer-Encoding: chunked\r\n\r\n/)
})

it.each([
  [400, '{"error":{"message":"no"}}'],
  [429, '{"error":{"message":"later"}}'],
  [500, ''],
  [204, ''],
])('an answer with %i has the same bytes', async (status, text) => {
  answer = (socket, body) => {
    if (!body.includes('other')) socket.write(WHOLE)
    else
      socket.write(
        `HTTP/1.1 ${status} Their Words\r\ndate: Mon, 01 Jan 2024 00:00:00 GMT\r\ncontent-length: ${text.length}\r\n\r\n${text}`,
      )
  }
  const [byNode, past] = await bothWays('{"model":"other","messages":[]}')
  expect(past).toBe(byNode)
  expect(past).toContain(`HTTP/1.1 ${status} `)
  expect(past).toContain('Mon, 01 Jan 2024')
})

it.each([
  ['a body that is no JSON', ['{', undefined], 400],
  ['an operation that is not forwarded', [CHAT, '/v1/raw/files'], 404],
  [
    'a key that is wrong',
    [CHAT, '/v1/raw/chat/completions', `authorization: Bearer cst_aaaaaaaa_${'0'.repeat(43)}`],
    401,
  ],
  ['a key in another header', [CHAT, '/v1/raw/chat/completions', `x-other: cst_aaaaaaaa_${'0'.repeat(43)}`], 400],
  ['a proxy that does not exist', [CHAT, '/v1/raw/nobody/chat/completions'], 404],
  ['a provider that does not answer', [CHAT, '/v1/closed/chat/completions'], 503],
  ['a page of another site', [CHAT, '/v1/raw/chat/completions', 'origin: http://other.example'], 403],
] as const)('%s is refused with the same bytes', async (_, [body, path, ...fields], status) => {
  const [byNode, past] = await bothWays(body, path, ...fields)
  expect(past).toBe(byNode)
  expect(past).toContain(`HTTP/1.1 ${status} `)
})

it('the first event comes with the head, before there are others', async () => {
  const { ask, send, until } = open()
  await ask(CHAT)
  const held = Promise.withResolvers<Socket>()
  answer = (socket) => {
    socket.write(STREAM_HEAD + chunk(event('first')))
    held.resolve(socket)
  }
  send(STREAM)
  expect(await until((text) => text.includes('first'))).toContain('HTTP/1.1 200 OK\r\n')
  ;(await held.promise).write(`${chunk(event('second'))}0\r\n\r\n`)
  expect(joined(await until(isWhole))).toContain(event('first') + event('second'))
})

it('ends upstream when the client leaves, before and within the answer, also if it has sent more', async () => {
  for (const begins of [true, false]) {
    for (const more of ['', 'POST /v1/raw']) {
      const { ask, send, socket, until } = open()
      answer = (upstream) => upstream.write(WHOLE)
      await ask(CHAT)
      const asked = Promise.withResolvers<Socket>()
      answer = (upstream) => {
        if (begins) upstream.write(STREAM_HEAD + chunk(event('x')))
        asked.resolve(upstream)
      }
      send(STREAM)
      const upstream = await asked.promise
      if (begins) await until((text) => text.includes('data:'))
      const left = once(upstream, 'close')
      if (more === '') socket.destroy()
      else socket.write(more, () => socket.destroy())
      await left
    }
  }
})

it('breaks off where the provider broke off', async () => {
  const { ask, send, socket } = open()
  await ask(CHAT)
  answer = (upstream) => upstream.end(STREAM_HEAD + chunk(event('x')))
  const ended = once(socket, 'close')
  send(STREAM)
  await ended
})

it('clients that read slowly get all of their streams, and hold the provider up meanwhile', async () => {
  const parts = 200
  const heldUp = new Map(['x', 'y'].map((letter) => [letter, Promise.withResolvers<void>()]))
  answer = (upstream, body) => {
    const { model: letter } = JSON.parse(body) as { model: string }
    if (letter === 'm') {
      upstream.write(WHOLE)
      return
    }
    const part = chunk(event(letter.repeat(60_000)))
    let left = parts
    upstream.write(STREAM_HEAD)
    const next = (): void => {
      while (left-- > 0) {
        if (upstream.write(part)) continue
        heldUp.get(letter)?.resolve()
        upstream.once('drain', next)
        return
      }
      upstream.write('0\r\n\r\n')
    }
    next()
  }
  const slow = [...heldUp].map(([letter, { promise }]) => ({ letter, isHeldUp: promise, client: open() }))
  for (const { client } of slow) await client.ask(CHAT)
  for (const { letter, client } of slow) {
    client.socket.pause()
    client.send(STREAM.replace('"m"', `"${letter}"`))
  }
  await Promise.all(slow.map(({ isHeldUp }) => isHeldUp))
  // Parts of all answers are put together in the same memory, which must not be that of parts that wait.
  const quick = open()
  await quick.ask(CHAT)
  quick.send(STREAM.replace('"m"', '"z"'))
  await quick.untilLastChunk()
  for (const { client } of slow) client.socket.resume()
  for (const { letter, client } of [...slow, { letter: 'z', client: quick }]) {
    const text = joined(await client.untilLastChunk())
    expect(text.match(new RegExp(`"${letter}{60000}"`, 'g'))).toHaveLength(parts)
    expect(text.slice(text.indexOf('\r\n\r\n') + 4).replaceAll(event(letter.repeat(60_000)), '')).toBe('')
  }
})

it('answers in order a client that does not wait', async () => {
  const { ask, socket, send, until } = open()
  await ask(CHAT)
  const asked = Promise.withResolvers<Socket>()
  answer = (upstream) => asked.resolve(upstream)
  send('{"model":"one","messages":[]}')
  const upstream = await asked.promise
  answer = (other) => other.write(WHOLE)
  const line = `POST /v1/raw/nobody/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\ncontent-length: 2\r\n\r\n{}`
  socket.write(line)
  upstream.write(WHOLE)
  const text = await until((so) => so.includes('HTTP/1.1 404'))
  expect(text.indexOf('HTTP/1.1 200')).toBeLessThan(text.indexOf('HTTP/1.1 404'))
})
