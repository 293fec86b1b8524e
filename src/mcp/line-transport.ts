import type { Readable, Writable } from 'node:stream'
import { limits } from '../contract/limits.ts'

/**
 * One JSON-RPC message per line, in both directions.
 * 1. A line longer than `limits.messageBytesMax` is never held in memory: its two ends are reported and the next line is
 *    read as usual.
 * 2. Lines sent in one turn of the event loop leave in one write.
 * 3. `onClose` fires once, when nothing more can be received; `send` still works then until `close`.
 */
export type OversizedLine = Readonly<{ head: string; tail: string }>

export type LineTransport = Readonly<{
  onLine(handler: (line: string) => void): void
  /** Absent when the transport cannot receive an oversized line. */
  onOversizedLine?(handler: (line: OversizedLine) => void): void
  onClose(handler: () => void): void
  send(line: string): void
  /** Writes what was sent, then ends. */
  close(): void
}>

const NEWLINE = 10
const END_BYTES = 512

/** The lines of a process's standard streams. */
export const stdioTransport = (stdin: Readable, stdout: Writable): LineTransport =>
  streamTransport(stdin, stdout, false)

/** The lines of a local socket; closing the session ends the socket. */
export const socketTransport = (socket: Readable & Writable): LineTransport => streamTransport(socket, socket, true)

function streamTransport(input: Readable, output: Writable, ownsOutput: boolean): LineTransport {
  const lines = new LineSplitter(limits.messageBytesMax)
  let onClose: (() => void) | undefined
  let closed = false
  let ended = false
  let pendingText = ''
  let draining = false

  function flush(): void {
    if (pendingText === '') return
    const text = pendingText
    pendingText = ''
    if (output.destroyed || output.writableEnded) return
    if (output.write(text) || draining || closed) return
    draining = true
    input.pause()
    output.once('drain', () => {
      draining = false
      if (!closed) input.resume()
    })
  }
  function inputEnded(): void {
    if (ended) return
    ended = true
    onClose?.()
  }
  const onData = (chunk: Buffer): void => lines.push(chunk)

  input.on('data', onData)
  input.once('end', () => {
    lines.end()
    inputEnded()
  })
  input.once('close', inputEnded)
  input.on('error', inputEnded)
  output.on('error', inputEnded)
  if (input.readableEnded || input.destroyed) process.nextTick(inputEnded)

  return {
    onLine(handler) {
      lines.onLine = handler
    },
    onOversizedLine(handler) {
      lines.onOversizedLine = handler
    },
    onClose(handler) {
      onClose = handler
    },
    send(line) {
      if (closed) return
      if (pendingText === '') process.nextTick(flush)
      pendingText += `${line}\n`
    },
    close() {
      if (closed) return
      flush()
      closed = true
      input.off('data', onData)
      input.pause()
      if (ownsOutput) output.end(() => output.destroy())
      inputEnded()
    },
  }
}

/** Cuts bytes into lines; holds at most one unfinished line, and of an oversized one only its ends. */
export class LineSplitter {
  onLine: (line: string) => void = () => {}
  onOversizedLine: (line: OversizedLine) => void = () => {}
  readonly #lineBytesMax: number
  /** The beginning of a line whose end has not arrived. */
  #parts: Buffer[] = []
  #partsBytes = 0
  /** Set while the rest of an oversized line is thrown away. */
  #oversized: { head: string; tail: Buffer } | undefined

  constructor(lineBytesMax: number) {
    this.#lineBytesMax = lineBytesMax
  }

  push(chunk: Buffer): void {
    let start = 0
    const last = chunk.lastIndexOf(NEWLINE)
    if (this.#partsBytes === 0 && this.#oversized === undefined && last !== -1 && last <= this.#lineBytesMax) {
      this.#splitText(chunk.toString('utf8', 0, last))
      start = last + 1
    }
    for (let end = chunk.indexOf(NEWLINE, start); end !== -1; end = chunk.indexOf(NEWLINE, start)) {
      this.#endLine(chunk.subarray(start, end))
      start = end + 1
    }
    this.#keep(start === 0 ? chunk : chunk.subarray(start))
  }

  /** Takes what arrived after the last newline as a line. */
  end(): void {
    if (this.#partsBytes > 0 || this.#oversized !== undefined) this.#endLine(Buffer.alloc(0))
  }

  #splitText(text: string): void {
    let start = 0
    for (let end = text.indexOf('\n'); end !== -1; end = text.indexOf('\n', start)) {
      if (end > start) this.onLine(text.slice(start, end))
      start = end + 1
    }
    if (start < text.length) this.onLine(start === 0 ? text : text.slice(start))
  }

  #keep(rest: Buffer): void {
    if (rest.length === 0) return
    if (this.#oversized !== undefined) {
      this.#oversized.tail = endOf(this.#oversized.tail, rest)
    } else if (this.#partsBytes + rest.length > this.#lineBytesMax) {
      this.#keepEnds(rest)
    } else {
      this.#parts.push(rest)
      this.#partsBytes += rest.length
    }
  }

  #endLine(rest: Buffer): void {
    this.#keep(rest)
    if (this.#oversized !== undefined) {
      const { head, tail } = this.#oversized
      this.#oversized = undefined
      this.onOversizedLine({ head, tail: tail.toString() })
      return
    }
    const bytes = this.#parts.length === 1 ? this.#parts[0]! : Buffer.concat(this.#parts)
    this.#parts = []
    this.#partsBytes = 0
    this.#splitText(bytes.toString())
  }

  #keepEnds(rest: Buffer): void {
    const head = Buffer.concat([...this.#parts, rest.subarray(0, END_BYTES)]).toString('utf8', 0, END_BYTES)
    this.#oversized = { head, tail: this.#parts.reduce(endOf, Buffer.alloc(0)) }
    this.#oversized.tail = endOf(this.#oversized.tail, rest)
    this.#parts = []
    this.#partsBytes = 0
  }
}

/** The last bytes of `before` followed by `after`. */
function endOf(before: Buffer, after: Buffer): Buffer {
  if (after.length >= END_BYTES) return Buffer.from(after.subarray(after.length - END_BYTES))
  const both = Buffer.concat([before, after])
  return both.subarray(Math.max(0, both.length - END_BYTES))
}
