import type { IncomingHttpHeaders } from 'node:http'
import { connect, type Socket } from 'node:net'
import { limits } from '../../contract/limits.ts'
import { type AnswerEvents, AnswerParser } from './answer-parser.ts'
import {
  type UpstreamBounds,
  type UpstreamController,
  type UpstreamHandler,
  type UpstreamPool,
  type UpstreamRequest,
  UpstreamTimeout,
} from './ports.ts'

/**
 * Connections to an upstream over HTTP without TLS, as models on this machine or in this network have it. A request is one write, and what
 * a read brings is passed on in the same turn.
 *
 * 1. One request at a time on each connection. It is sent once: if the connection breaks, nobody knows what the upstream did.
 * 2. A connection is used again only if its answer was complete, its request was sent, and nothing came after the answer.
 */
export function createPlainPool(origin: string, bounds: UpstreamBounds): UpstreamPool {
  const pool = new PlainPool(new URL(origin), bounds)
  return { dispatch: (request, handler) => pool.dispatch(request, handler), destroy: async () => pool.destroy() }
}

type Sent = Readonly<{ request: UpstreamRequest; handler: UpstreamHandler }>

class PlainPool {
  readonly bounds: UpstreamBounds
  readonly host: string
  readonly address: Readonly<{ host: string; port: number }>
  /** What was read is used before the next read, of any connection: next ticks come before that. */
  readonly buffer = Buffer.allocUnsafeSlow(READ_BYTES)
  readonly #idle: PlainConnection[] = []
  readonly #all = new Set<PlainConnection>()
  readonly #waiting: Sent[] = []
  #connecting = 0
  #isDestroyed = false

  constructor({ host, hostname, port }: URL, bounds: UpstreamBounds) {
    this.bounds = bounds
    this.host = host
    this.address = { host: hostname.replace(/^\[|\]$/g, ''), port: Number(port || HTTP_PORT) }
  }

  dispatch(request: UpstreamRequest, handler: UpstreamHandler): void {
    const sent = { request, handler }
    if (this.#isDestroyed) {
      handler.onResponseError(undefined, closed())
      return
    }
    for (let next = this.#idle.pop(); next !== undefined; next = this.#idle.pop()) {
      if (!next.isUsable()) continue
      next.send(sent)
      return
    }
    this.#waiting.push(sent)
    this.#connect()
  }

  destroy(): void {
    this.#isDestroyed = true
    for (const connection of this.#all) connection.fail(closed())
    for (const { handler } of this.#waiting.splice(0)) handler.onResponseError(undefined, closed())
  }

  /** The connection can take another request. */
  isFree(connection: PlainConnection): void {
    const next = this.#waiting.shift()
    if (next === undefined) this.#idle.push(connection)
    else connection.send(next)
  }

  hasConnected(): void {
    this.#connecting--
  }

  hasClosed(connection: PlainConnection, neverConnected?: Error): void {
    this.#all.delete(connection)
    const at = this.#idle.indexOf(connection)
    if (at !== -1) this.#idle.splice(at, 1)
    if (neverConnected !== undefined) {
      this.#connecting--
      this.#waiting.shift()?.handler.onResponseError(undefined, neverConnected)
    }
    this.#connect()
  }

  #connect(): void {
    while (this.#waiting.length > this.#connecting && this.#all.size < this.bounds.connections && !this.#isDestroyed) {
      this.#connecting++
      this.#all.add(new PlainConnection(this))
    }
  }
}

class PlainConnection implements AnswerEvents {
  readonly #pool: PlainPool
  readonly #socket: Socket
  readonly #parser = new AnswerParser(this)
  #current: PlainController | undefined
  #isConnected = false
  #isPaused = false
  #isBodyTimed = false
  #error: Error | undefined

  constructor(pool: PlainPool) {
    this.#pool = pool
    const { buffer } = pool
    const callback = (length: number): boolean => {
      this.#read(buffer.subarray(0, length))
      return !this.#isPaused
    }
    const socket = connect({ ...pool.address, noDelay: true, onread: { buffer, callback } })
    this.#socket = socket
    const impatience = setTimeout(() => this.fail(new UpstreamTimeout('connecting')), pool.bounds.connectTimeoutMs)
    socket.once('connect', () => {
      clearTimeout(impatience)
      this.#isConnected = true
      pool.hasConnected()
      pool.isFree(this)
    })
    socket.on('timeout', () => this.#timedOut())
    socket.on('error', (error) => {
      this.#error ??= error
    })
    socket.on('end', () => this.#ended())
    socket.on('close', () => {
      clearTimeout(impatience)
      this.#closed()
    })
  }

  isUsable(): boolean {
    return this.#socket.writable && !this.#socket.readableEnded
  }

  send({ request, handler }: Sent): void {
    const controller = new PlainController(this, handler)
    this.#current = controller
    this.#isBodyTimed = false
    this.#parser.begin()
    try {
      const head = headOf(request, this.#pool.host)
      handler.onRequestStart(controller)
      if (this.#current !== controller) return
      this.#socket.setTimeout(this.#pool.bounds.answerTimeoutMs)
      this.#write(head, request.body)
    } catch (error) {
      // Nothing was sent, so the connection is as it was.
      this.#current = undefined
      handler.onResponseError(controller, error as Error)
      this.#idle()
    }
  }

  /** As one latin1 string, which keeps every byte, a short request is sent in one write without being copied together. */
  #write(head: string, body: Buffer | undefined): void {
    const socket = this.#socket
    if (body === undefined) socket.write(head, 'latin1')
    else if (body.length <= ONE_WRITE_BYTES_MAX) socket.write(head + body.toString('latin1'), 'latin1')
    else {
      socket.cork()
      socket.write(head, 'latin1')
      socket.write(body)
      socket.uncork()
    }
  }

  #read(bytes: Buffer): void {
    if (this.#current === undefined) {
      this.#socket.destroy()
      return
    }
    try {
      this.#parser.take(bytes)
    } catch (error) {
      this.fail(error as Error)
      return
    }
    if (this.#current === undefined || this.#isBodyTimed || !this.#parser.hasHead) return
    this.#isBodyTimed = true
    this.#socket.setTimeout(this.#pool.bounds.idleTimeoutMs)
  }

  onHead(status: number, headers: IncomingHttpHeaders): void {
    const current = this.#current!
    current.handler.onResponseStart(current, status, headers)
  }

  onBody(bytes: Buffer): void {
    const current = this.#current!
    current.handler.onResponseData(current, bytes)
  }

  onEnd(): void {
    const current = this.#current!
    this.#current = undefined
    const isReusable = this.#parser.keepsAlive && this.#socket.writableLength === 0 && this.isUsable()
    current.handler.onResponseEnd(current)
    this.#isPaused = false
    if (isReusable) this.#idle()
    else this.#socket.destroy()
  }

  /** What is under way is ended, without a word to its handler. */
  leave(controller: PlainController): void {
    if (this.#current !== controller) return
    this.#current = undefined
    this.#parser.stop()
    this.#socket.destroy()
  }

  pause(controller: PlainController): void {
    if (this.#current !== controller || this.#isPaused) return
    this.#isPaused = true
    this.#socket.pause()
  }

  resume(controller: PlainController): void {
    if (this.#current !== controller || !this.#isPaused) return
    this.#isPaused = false
    this.#socket.resume()
  }

  fail(error: Error): void {
    this.#error = error
    this.#parser.stop()
    this.#socket.destroy()
    const current = this.#current
    this.#current = undefined
    current?.handler.onResponseError(current, error)
  }

  #idle(): void {
    if (this.#socket.destroyed) return
    const { keepAliveMs } = this.#pool.bounds
    const ownMs = this.#parser.keepAliveMs
    const idleMs = ownMs === undefined ? keepAliveMs : Math.min(keepAliveMs, ownMs - limits.modelKeepAliveMarginMs)
    if (idleMs <= 0) {
      this.#socket.destroy()
      return
    }
    this.#socket.setTimeout(idleMs)
    this.#socket.resume()
    this.#pool.isFree(this)
  }

  #timedOut(): void {
    // The reader that paused it has a time limit of its own.
    if (this.#isPaused) this.#socket.setTimeout(this.#pool.bounds.idleTimeoutMs)
    else if (this.#current === undefined) this.#socket.destroy()
    else this.fail(new UpstreamTimeout(this.#parser.hasHead ? 'between two parts' : 'until the answer begins'))
  }

  #ended(): void {
    if (this.#current !== undefined) this.#parser.finish()
  }

  #closed(): void {
    const current = this.#current
    this.#current = undefined
    const error = this.#error ?? new Error('the upstream ended the connection')
    current?.handler.onResponseError(current, error)
    this.#pool.hasClosed(this, this.#isConnected ? undefined : error)
  }
}

class PlainController implements UpstreamController {
  readonly handler: UpstreamHandler
  readonly #connection: PlainConnection

  constructor(connection: PlainConnection, handler: UpstreamHandler) {
    this.#connection = connection
    this.handler = handler
  }

  pause(): void {
    this.#connection.pause(this)
  }
  resume(): void {
    this.#connection.resume(this)
  }
  abort(): void {
    this.#connection.leave(this)
  }
}

const HTTP_PORT = 80
const READ_BYTES = 64 * 1024
const ONE_WRITE_BYTES_MAX = 12 * 1024
const NOT_A_VALUE = /[^\t\x20-\x7e\x80-\xff]/
const NOT_A_PATH = /[^\x21-\x7e\x80-\xff]/

function headOf({ method, path, headers }: UpstreamRequest, host: string): string {
  if (NOT_A_PATH.test(path))
    throw new Error('the path of a request to an upstream has a character that it may not have')
  let head = `${method} ${path} HTTP/1.1\r\nhost: ${host}\r\nconnection: keep-alive\r\n`
  for (let index = 0; index < headers.length; index += 2) {
    const value = headers[index + 1]!
    if (NOT_A_VALUE.test(value)) {
      throw new Error(`the value of ${headers[index]} has a character that a header may not have`)
    }
    head += `${headers[index]}: ${value}\r\n`
  }
  return `${head}\r\n`
}

const closed = (): Error => new Error('the connections to the upstream are closed')
