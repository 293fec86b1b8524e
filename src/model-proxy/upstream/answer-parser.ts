import type { IncomingHttpHeaders } from 'node:http'
import { limits } from '../../contract/limits.ts'

/** What comes of an answer. An event may stop the parser; then no other follows. */
export type AnswerEvents = Readonly<{
  onHead(status: number, headers: IncomingHttpHeaders): void
  /** All of the body that one read has. The bytes are those of the read, so a receiver that retains them copies them. */
  onBody(bytes: Buffer): void
  onEnd(): void
}>

type State =
  | 'head'
  | 'length'
  | 'size'
  | 'extension'
  | 'size-end'
  | 'data'
  | 'data-return'
  | 'data-end'
  | 'trailer'
  | 'until-close'
  | 'over'

const NOTHING = Buffer.alloc(0)
const [TAB, LF, CR, SPACE, SEMICOLON] = [9, 10, 13, 32, 59]
const END_OF_HEAD = '\r\n\r\n'
const STATUS_LINE = /^HTTP\/1\.([01]) ([1-5][0-9]{2})(?: [\t\x20-\x7e\x80-\xff]*)?$/
const NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/
/** Not `trim`, which also removes characters that a value may end with. */
const AROUND = /^[\t ]+|[\t ]+$/g
const NOT_A_VALUE = /[^\t\x20-\x7e\x80-\xff]/
const LENGTH = /^[0-9]{1,15}$/
const SIZE_DIGITS_MAX = 8
/** Extensions of chunks and fields after the body mean nothing here, and are read past. */
const READ_PAST_BYTES_MAX = 16 * 1024
const KEEP_ALIVE_TIMEOUT = /(?:^|[,\s])timeout=([0-9]{1,9})/i

/**
 * Reads answers of HTTP/1.1 on one connection, one after the other. Whatever is not framed beyond doubt is an error: two lengths, a length
 * beside chunks, a line without its return, a folded field. The parts of a body that come in one read are joined, so that an event in
 * each chunk costs no more than many in one.
 */
export class AnswerParser {
  readonly #events: AnswerEvents
  #state: State = 'head'
  #held: Buffer = NOTHING
  /** Bytes left of the body or of the chunk. */
  #left = 0
  #digits = 0
  #readPast = 0
  #isLineEmpty = true
  #isAfterReturn = false
  #isStopped = false
  #keepsAlive = false
  #keepAliveMs: number | undefined

  constructor(events: AnswerEvents) {
    this.#events = events
  }

  /** Another answer is expected. */
  begin(): void {
    this.#state = 'head'
    this.#held = NOTHING
    this.#isStopped = false
  }

  /** What comes is not wanted any more. */
  stop(): void {
    this.#isStopped = true
    this.#state = 'over'
  }

  /** Whether the upstream leaves the connection open after this answer, and for how long if it says so. */
  get keepsAlive(): boolean {
    return this.#keepsAlive
  }

  get keepAliveMs(): number | undefined {
    return this.#keepAliveMs
  }

  /** Whether the body has begun. */
  get hasHead(): boolean {
    return this.#state !== 'head'
  }

  /** The bytes may be changed, and are used only during the call. */
  take(bytes: Buffer): void {
    let rest = bytes
    while (this.#state === 'head') {
      const body = this.#takeHead(rest)
      if (body === undefined) return
      rest = body
    }
    if (rest.length === 0 || this.#isOver()) {
      if (rest.length > 0) this.#keepsAlive = false
      return
    }
    if (this.#state === 'until-close') this.#events.onBody(rest)
    else if (this.#state === 'length') this.#takeLength(rest)
    else this.#takeChunks(rest)
  }

  /** The connection has ended; false if the answer is not complete. */
  finish(): boolean {
    if (this.#state !== 'until-close') return this.#isOver()
    this.#end(0)
    return true
  }

  #isOver(): boolean {
    return this.#state === 'over'
  }

  #takeLength(bytes: Buffer): void {
    const { length } = bytes
    const taken = Math.min(length, this.#left)
    this.#left -= taken
    this.#events.onBody(taken === length ? bytes : bytes.subarray(0, taken))
    if (this.#left === 0) this.#end(length - taken)
  }

  /** `surplus`: bytes after the end, which belong to nothing. */
  #end(surplus: number): void {
    if (surplus > 0) this.#keepsAlive = false
    this.#state = 'over'
    if (!this.#isStopped) this.#events.onEnd()
  }

  /** What follows a head; undefined while the head is not complete. */
  #takeHead(bytes: Buffer): Buffer | undefined {
    const all = this.#held.length === 0 ? bytes : Buffer.concat([this.#held, bytes])
    const end = all.indexOf(END_OF_HEAD, Math.max(0, this.#held.length - END_OF_HEAD.length), 'latin1')
    if ((end === -1 ? all.length : end) > limits.modelAnswerHeadBytesMax) throw malformed('its head is too long')
    if (end === -1) {
      this.#held = Buffer.from(all)
      return undefined
    }
    this.#held = NOTHING
    this.#readHead(all.toString('latin1', 0, end))
    return all.subarray(end + END_OF_HEAD.length)
  }

  #readHead(text: string): void {
    const lines = text.split('\r\n')
    const [, minor, code] = STATUS_LINE.exec(lines[0]!) ?? []
    if (minor === undefined) throw malformed('its first line is not one of HTTP/1.1')
    const status = Number(code)
    const headers = readFields(lines)
    if (status === 101) throw malformed('it changes the protocol')
    // Another head follows.
    if (status < 200) return
    this.#frame(status, headers)
    const connection = String(headers['connection'] ?? (minor === '1' ? 'keep-alive' : 'close')).toLowerCase()
    this.#keepsAlive =
      this.#state !== 'until-close' && !connection.includes('close') && connection.includes('keep-alive')
    const [, seconds] = KEEP_ALIVE_TIMEOUT.exec(String(headers['keep-alive'] ?? '')) ?? []
    this.#keepAliveMs = seconds === undefined ? undefined : Number(seconds) * 1_000
    const hasBody = !this.#isOver()
    this.#events.onHead(status, headers)
    if (!hasBody) this.#end(0)
  }

  /** How the end of the body is known. */
  #frame(status: number, headers: IncomingHttpHeaders): void {
    const { 'content-length': length, 'transfer-encoding': encoding } = headers as Record<string, unknown>
    if (encoding !== undefined && (length !== undefined || String(encoding).toLowerCase() !== 'chunked')) {
      throw malformed('its transfer encoding is not chunked alone')
    }
    if (length !== undefined && (typeof length !== 'string' || !LENGTH.test(length))) {
      throw malformed('its length is not a number')
    }
    this.#left = Number(length ?? 0)
    if (status === 204 || status === 304 || (length !== undefined && this.#left === 0)) this.#state = 'over'
    else if (encoding !== undefined) this.#expectSize()
    else this.#state = length === undefined ? 'until-close' : 'length'
  }

  #expectSize(): void {
    this.#state = 'size'
    this.#left = 0
    this.#digits = 0
    this.#readPast = 0
  }

  /** The contents of chunks are moved together in what was read, then passed on at once. */
  #takeChunks(bytes: Buffer): void {
    const { length } = bytes
    let start = 0
    let end = 0
    let at = 0
    while (at < length && !this.#isOver()) {
      if (this.#state === 'data') {
        const taken = Math.min(length - at, this.#left)
        if (end === 0) start = at
        else bytes.copyWithin(end, at, at + taken)
        end = (end === 0 ? at : end) + taken
        at += taken
        this.#left -= taken
        if (this.#left === 0) this.#state = 'data-return'
      } else this.#takeFraming(bytes[at++]!)
    }
    const isComplete = this.#isOver()
    if (end > start) this.#events.onBody(bytes.subarray(start, end))
    if (isComplete) this.#end(length - at)
  }

  #takeFraming(byte: number): void {
    switch (this.#state) {
      case 'size':
        this.#takeSize(byte)
        return
      case 'extension':
        if (byte === CR) this.#state = 'size-end'
        else if (byte === LF || ++this.#readPast > READ_PAST_BYTES_MAX) throw badChunk()
        return
      case 'size-end':
        if (byte !== LF || this.#digits === 0) throw badChunk()
        this.#state = this.#left === 0 ? 'trailer' : 'data'
        this.#isLineEmpty = true
        this.#isAfterReturn = false
        return
      case 'data-return':
        if (byte !== CR) throw badChunk()
        this.#state = 'data-end'
        return
      case 'data-end':
        if (byte !== LF) throw badChunk()
        this.#expectSize()
        return
      default:
        this.#takeTrailer(byte)
    }
  }

  #takeSize(byte: number): void {
    const digit = hexDigit(byte)
    if (digit >= 0) {
      if (++this.#digits > SIZE_DIGITS_MAX) throw badChunk()
      this.#left = this.#left * 16 + digit
    } else if (byte === CR) this.#state = 'size-end'
    else if (byte === SEMICOLON || byte === SPACE || byte === TAB) this.#state = 'extension'
    else throw badChunk()
  }

  /** An empty line ends it. */
  #takeTrailer(byte: number): void {
    if (++this.#readPast > READ_PAST_BYTES_MAX || (byte === LF) !== this.#isAfterReturn) throw badChunk()
    this.#isAfterReturn = byte === CR
    if (byte === CR) return
    if (byte === LF && this.#isLineEmpty) this.#state = 'over'
    this.#isLineEmpty = byte === LF
  }
}

function readFields(lines: readonly string[]): IncomingHttpHeaders {
  const headers = Object.create(null) as Record<string, string | string[]>
  for (let index = 1; index < lines.length; index++) {
    const line = lines[index]!
    const colon = line.indexOf(':')
    const name = line.slice(0, Math.max(colon, 0)).toLowerCase()
    const value = line.slice(colon + 1).replace(AROUND, '')
    if (!NAME.test(name) || NOT_A_VALUE.test(value)) throw malformed('a field of its head is not one')
    const known = headers[name]
    if (known === undefined) headers[name] = value
    else headers[name] = [...(typeof known === 'string' ? [known] : known), value]
  }
  return headers
}

function hexDigit(byte: number): number {
  if (byte >= 48 && byte <= 57) return byte - 48
  const letter = byte | 32
  return letter >= 97 && letter <= 102 ? letter - 87 : -1
}

const malformed = (reason: string): Error => new Error(`the answer cannot be read: ${reason}`)
const badChunk = (): Error => malformed('a chunk of its body is not framed as one')
