import type { Socket } from 'node:net'
import { STATUS_CODES, validateHeaderValue } from '../kernel/node-http.ts'
import type { Answer } from './exchange/answer.ts'

/** The connection of an answer. Lines of its head have their line ends. */
export type AnsweringConnection = Readonly<{
  socket: Socket
  dateLine(): string
  connectionLines(): string
  /** Called when a part of the answer is written. */
  continued(): void
  /** Called when the answer is written to its end. */
  answered(): void
}>

/** An answer past `node:http`: the same bytes as that would send, its head and the first part of its body in one write. */
export class PlainAnswer implements Answer {
  readonly copiesBytes = true
  headersSent = false
  writableFinished = false
  closed = false
  readonly #connection: AnsweringConnection
  readonly #socket: Socket
  /** Written and not sent. */
  #head = ''
  #isChunked = false
  #hasBody = true
  #onClose: (() => void)[] = []

  constructor(connection: AnsweringConnection) {
    this.#connection = connection
    this.#socket = connection.socket
  }

  get destroyed(): boolean {
    return this.closed || this.#socket.destroyed
  }

  get writableNeedDrain(): boolean {
    return !this.closed && this.#socket.writableNeedDrain
  }

  writeHead(status: number, headers: string[]): void {
    if (this.headersSent) throw new Error('the head of the answer was written before')
    let head = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? 'unknown'}\r\n`
    let hasDate = false
    let hasLength = false
    for (let index = 0; index < headers.length; index += 2) {
      const name = headers[index]!
      const value = headers[index + 1]!
      if (NOT_A_VALUE.test(value)) validateHeaderValue(name, value)
      head += `${name}: ${value}\r\n`
      if (name.length === DATE.length && name.toLowerCase() === DATE) hasDate = true
      else if (name.length === LENGTH.length && name.toLowerCase() === LENGTH) hasLength = true
    }
    this.#hasBody = status !== 204 && status !== 304
    this.#isChunked = this.#hasBody && !hasLength
    const date = hasDate ? '' : this.#connection.dateLine()
    this.#head = `${head}${date}${this.#connection.connectionLines()}${this.#isChunked ? CHUNKED : ''}\r\n`
    this.headersSent = true
  }

  flushHeaders(): void {
    if (this.#head === '' || !this.#canWrite()) return
    this.#socket.write(this.#takeHead(), 'latin1')
  }

  write(bytes: Buffer): boolean {
    if (!this.#canWrite() || bytes.length === 0) return true
    if (!this.#hasBody) {
      this.flushHeaders()
      return true
    }
    this.#connection.continued()
    if (!this.#isChunked) return this.#writeParts(this.#takeHead(), bytes, '')
    return this.#writeParts(`${this.#takeHead()}${bytes.length.toString(16)}\r\n`, bytes, '\r\n')
  }

  end(body?: Buffer | string, encoding?: 'latin1' | 'utf8'): void {
    if (this.writableFinished) return
    if (this.#canWrite()) this.#writeEnd(body, encoding)
    this.writableFinished = true
    this.closed = true
    this.#connection.answered()
    // As with node:http, the one who ends it hears of that later.
    if (this.#onClose.length > 0) process.nextTick(() => this.#emitClose())
  }

  destroy(): void {
    if (!this.closed) this.#socket.destroy()
  }

  on(event: 'close' | 'drain', listener: () => void): void {
    if (event === 'drain') this.#socket.on(event, listener)
    else this.#onClose.push(listener)
  }

  off(event: 'close' | 'drain', listener: () => void): void {
    if (event === 'drain') this.#socket.off(event, listener)
    else {
      const at = this.#onClose.indexOf(listener)
      if (at !== -1) this.#onClose.splice(at, 1)
    }
  }

  /** The client is not there any more. */
  disconnected(): void {
    if (this.closed) return
    this.closed = true
    this.#emitClose()
  }

  #canWrite(): boolean {
    return !this.closed && this.#socket.writable
  }

  #takeHead(): string {
    const head = this.#head
    this.#head = ''
    return head
  }

  #writeEnd(body: Buffer | string | undefined, encoding: 'latin1' | 'utf8' = 'utf8'): void {
    const head = this.#takeHead()
    const bytes = typeof body === 'string' && encoding === 'utf8' ? Buffer.from(body) : body
    if (bytes === undefined || bytes.length === 0 || !this.#hasBody) {
      const text = this.#isChunked ? `${head}${LAST_CHUNK}` : head
      if (text !== '') this.#socket.write(text, 'latin1')
      return
    }
    const before = this.#isChunked ? `${head}${bytes.length.toString(16)}\r\n` : head
    const after = this.#isChunked ? `\r\n${LAST_CHUNK}` : ''
    if (typeof bytes === 'string') this.#socket.write(before + bytes + after, 'latin1')
    else this.#writeParts(before, bytes, after)
  }

  #writeParts(before: string, bytes: Buffer, after: string): boolean {
    const length = before.length + bytes.length + after.length
    const all = memoryOf(length)
    all.write(before, 0, 'latin1')
    bytes.copy(all, before.length)
    all.write(after, before.length + bytes.length, 'latin1')
    const isTaken = this.#socket.write(all.length === length ? all : all.subarray(0, length))
    // What is not sent at once belongs to the socket until it is.
    if (this.#socket.writableLength > 0) memory = NOTHING
    return isTaken
  }

  #emitClose(): void {
    const listeners = this.#onClose
    this.#onClose = []
    for (const listener of listeners) listener()
  }
}

const DATE = 'date'
const LENGTH = 'content-length'
const CHUNKED = 'Transfer-Encoding: chunked\r\n'
const LAST_CHUNK = '0\r\n\r\n'
/**
 * Parts of answers are put together in memory that is used again. A new piece for each would be garbage outside of the heap of V8, which
 * then collects all garbage many times a second while streams pass.
 */
const MEMORY_BYTES_MAX = 128 * 1024
const NOTHING = Buffer.alloc(0)
let memory: Buffer = NOTHING
function memoryOf(bytes: number): Buffer {
  if (bytes > MEMORY_BYTES_MAX) return Buffer.allocUnsafeSlow(bytes)
  if (memory.length < bytes) memory = Buffer.allocUnsafeSlow(Math.min(bytes * 2, MEMORY_BYTES_MAX))
  return memory
}
const NOT_A_VALUE = /[^\t\x20-\x7e\x80-\xff]/
