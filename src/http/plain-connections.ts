import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { limits } from '../contract/limits.ts'
import { type BusyPoll, createBusyPoll } from '../kernel/busy-poll.ts'
import type { Clock } from '../kernel/clock.ts'
import type { Answering, Connections } from './connections.ts'
import type { Answer } from './exchange/answer.ts'
import type { Reply } from './exchange/reply.ts'
import { headersFor } from './exchange/send-text.ts'
import { PlainAnswer } from './plain-answer.ts'
import { type PlainHead, readPlainHead } from './plain-request.ts'

/**
 * A shorter way for plain requests than `node:http`, on the same connections.
 *
 * 1. `node:http` has every connection, with its parser and its time limits. Bytes pass here first. What is exactly one plain request
 *    (`plain-request.ts`) may be served here, and then `node:http` does not see it. Everything else it gets unchanged.
 * 2. The first request of a connection goes to `node:http`, so that its limit for connections that send nothing is satisfied.
 * 3. A request is served here only while `node:http` has none of this connection. If a client sends more before it has its answer,
 *    or anything that is not one whole request, the connection belongs to `node:http` from then on. So it bounds what is kept for a
 *    client that does not read.
 */
type PlainConnections = Readonly<{
  /** Called with each request of `node:http`. */
  follow(req: IncomingMessage, res: ServerResponse): void
}>

/** Serves the request and says so, or leaves everything as it was. If it is served, the reply is used once. */
export type ServePlain = (head: PlainHead, body: Buffer, reply: PlainReply) => boolean | Promise<boolean>

/** The answer is JSON with the status 200, or opened to be anything else. */
export type PlainReply = Reply & Readonly<{ open(): Answer }>

type Deps = Readonly<{
  server: Server
  connections: Pick<Connections, 'begin' | 'ended'>
  serve: ServePlain
  clock: Clock
}>

type Feed = (chunk: Buffer) => void

export function servePlainRequests(deps: Deps): PlainConnections {
  const { server } = deps
  const known = new WeakMap<Socket, PlainConnection>()
  const dateLine = createDateLine(deps.clock)
  const poll = createBusyPoll()

  server.on('connection', (socket: Socket) => {
    const [feed, ...others] = socket.listeners('data') as Feed[]
    if (socket.destroyed || feed === undefined || others.length > 0) return
    known.set(socket, new PlainConnection(deps, dateLine, poll, socket, feed))
  })
  // With a listener here, `node:http` does not end a connection by itself that it believes to be idle.
  server.on('timeout', (socket: Socket) => {
    if (known.get(socket)?.isServing() !== true) socket.destroy()
  })
  return { follow: (req, res) => known.get(req.socket)?.follow(req, res) }
}

/** `fresh`: nothing was sent yet. `http`: `node:http` serves a request. `idle`: nobody does. `serving`: this does. */
type State = 'fresh' | 'http' | 'idle' | 'serving' | 'given-up'

class PlainConnection implements Answering, PlainReply {
  readonly req: Readonly<{ socket: Socket }>
  shouldKeepAlive = true
  readonly #deps: Deps
  readonly socket: Socket
  readonly dateLine: () => string
  readonly #poll: BusyPoll
  readonly #feed: Feed
  #state: State = 'fresh'
  #head: PlainHead | undefined
  #onDisconnected: (() => void) | undefined
  #answer: PlainAnswer | undefined
  /** What came while a request was served. */
  #early: Buffer[] = []
  #earlyBytes = 0

  constructor(deps: Deps, dateLine: () => string, poll: BusyPoll, socket: Socket, feed: Feed) {
    this.#deps = deps
    this.dateLine = dateLine
    this.#poll = poll
    this.socket = socket
    this.req = { socket }
    this.#feed = feed
    socket.removeListener('data', feed)
    socket.on('data', this.#onData)
    socket.once('close', () => this.#closed())
  }

  get headersSent(): boolean {
    return this.#answer?.headersSent ?? false
  }

  open(): Answer {
    this.#answer = new PlainAnswer(this)
    return this.#answer
  }

  connectionLines(): string {
    return this.shouldKeepAlive ? KEEP_ALIVE : CLOSE
  }

  continued(): void {
    this.#poll.continued()
  }

  answered(): void {
    this.#ended()
    if (!this.shouldKeepAlive) this.socket.end()
    else if (this.#early.length > 0) this.#giveUp(this.#early.splice(0))
  }

  isServing(): boolean {
    return this.#state === 'serving'
  }

  follow(req: IncomingMessage, res: ServerResponse): void {
    if (this.#state !== 'http') return
    res.once('close', () => {
      const isOver = req.complete && res.writableFinished && !this.socket.destroyed
      if (this.#state === 'http' && isOver) this.#state = 'idle'
    })
  }

  isDisconnected(): boolean {
    return this.socket.destroyed
  }

  onDisconnected(listener: () => void): void {
    if (this.#state === 'serving') this.#onDisconnected = listener
  }

  send(json: string, headers?: Readonly<Record<string, string>>): void {
    if (this.#state !== 'serving') return
    const isAscii = Buffer.byteLength(json) === json.length
    const fields = headersFor('application/json', isAscii ? json.length : Buffer.byteLength(json), headers)
    let text = 'HTTP/1.1 200 OK\r\n'
    for (let index = 0; index < fields.length; index += 2) text += `${fields[index]}: ${fields[index + 1]}\r\n`
    text += `${this.dateLine()}${this.connectionLines()}\r\n${json}`
    if (!this.socket.destroyed) this.socket.write(text, isAscii ? 'latin1' : 'utf8')
    this.answered()
  }

  readonly #onData = (chunk: Buffer): void => {
    if (this.#state === 'serving') {
      // Reading goes on within a bound: otherwise nobody would notice that the client disconnects.
      this.#early.push(chunk)
      this.#earlyBytes += chunk.length
      if (this.#earlyBytes > limits.plainRequestBytesMax) this.socket.pause()
      return
    }
    const text = chunk.length > limits.plainRequestBytesMax ? '' : chunk.toString('latin1')
    const isBusy = this.#state === 'http' || this.socket.writableNeedDrain
    const head = isBusy ? undefined : this.#headOf(text)
    if (head === undefined) this.#giveUp([chunk])
    else if (this.#state === 'fresh') this.#toHttp(chunk)
    else this.#serve(head, chunk)
  }

  /** Clients send the same head again and again, so the last one is remembered. */
  #headOf(text: string): PlainHead | undefined {
    let head = this.#head
    if (head === undefined || !text.startsWith(head.text)) {
      head = readPlainHead(text, this.socket)
      this.#head = head
    }
    return head !== undefined && text.length === head.text.length + head.bodyBytes ? head : undefined
  }

  #serve(head: PlainHead, chunk: Buffer): void {
    this.#state = 'serving'
    this.#earlyBytes = 0
    this.#deps.connections.begin(this)
    this.#poll.started()
    const isServed = this.#deps.serve(head, chunk.subarray(head.text.length), this)
    if (isServed === true) return
    if (isServed === false) this.#leave(chunk)
    else
      isServed.then(
        (served) => served || this.#leave(chunk),
        () => this.socket.destroy(),
      )
  }

  /** Not served here after all. */
  #leave(chunk: Buffer): void {
    this.#ended()
    if (this.#early.length === 0) this.#toHttp(chunk)
    else this.#giveUp([chunk, ...this.#early.splice(0)])
  }

  #ended(): void {
    if (this.#state !== 'serving') return
    this.#state = 'idle'
    this.#onDisconnected = undefined
    this.#answer = undefined
    this.#deps.connections.ended(this)
    this.#poll.ended()
  }

  #toHttp(chunk: Buffer): void {
    this.#state = 'http'
    this.#feed(chunk)
  }

  #giveUp(chunks: readonly Buffer[]): void {
    this.#state = 'given-up'
    this.socket.removeListener('data', this.#onData)
    this.socket.on('data', this.#feed)
    for (const chunk of chunks) if (!this.socket.destroyed) this.#feed(chunk)
    this.socket.resume()
  }

  #closed(): void {
    const onDisconnected = this.#onDisconnected
    const answer = this.#answer
    this.#ended()
    this.#state = 'given-up'
    onDisconnected?.()
    answer?.disconnected()
  }
}

const KEEP_ALIVE = `Connection: keep-alive\r\nKeep-Alive: timeout=${Math.floor(limits.httpKeepAliveMs / 1000)}\r\n`
const CLOSE = 'Connection: close\r\n'

/** The Date of an answer, made once in a second. */
function createDateLine(clock: Clock): () => string {
  let second = -1
  let line = ''
  return () => {
    const now = Math.floor(clock.nowMs() / 1000)
    if (now !== second) {
      second = now
      line = `Date: ${new Date(now * 1000).toUTCString()}\r\n`
    }
    return line
  }
}
