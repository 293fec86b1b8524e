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
export const stdioTransport = (stdin: Readable, stdout: Writable): LineTransport => streamTransport(stdin, stdout, false)

/** The lines of a local socket; closing the session ends the socket. */
export const socketTransport = (socket: Readable & Writable): LineTransport => streamTransport(socket, socket, true)

function streamTransport(input: Readable, output: Writable, ownsOutput: boolean): LineTransport {
  const lines = createLineSplitter(limits.messageBytesMax)
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
  input.once('end', inputEnded)
  input.once('close', inputEnded)
  input.once('error', inputEnded)
  output.on('error', inputEnded)
  if (input.readableEnded || input.destroyed) process.nextTick(inputEnded)

  return {
    onLine: lines.onLine,
    onOversizedLine: lines.onOversizedLine,
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
      if (ownsOutput) output.end()
      inputEnded()
    },
  }
}

export type LineSplitter = Readonly<{
  push(chunk: Buffer): void
  onLine(handler: (line: string) => void): void
  onOversizedLine(handler: (line: OversizedLine) => void): void
}>

export function createLineSplitter(lineBytesMax: number): LineSplitter {
  let handleLine: (line: string) => void = () => {}
  let handleOversized: (line: OversizedLine) => void = () => {}
  /** The beginning of a line whose end has not arrived. */
  let parts: Buffer[] = []
  let partsBytes = 0
  /** Set while the rest of an oversized line is thrown away. */
  let oversized: { head: string; tail: Buffer } | undefined

  function endLine(rest: Buffer): void {
    if (oversized !== undefined) {
      const tail = lastBytes(Buffer.concat([oversized.tail, lastBytes(rest)]))
      const { head } = oversized
      oversized = undefined
      handleOversized({ head, tail: tail.toString() })
      return
    }
    if (partsBytes + rest.length > lineBytesMax) {
      keepEnds(rest)
      endLine(rest.subarray(rest.length))
      return
    }
    const bytes = partsBytes === 0 ? rest : Buffer.concat([...parts, rest])
    parts = []
    partsBytes = 0
    splitText(bytes.toString())
  }

  function splitText(text: string): void {
    let start = 0
    for (let end = text.indexOf('\n'); end !== -1; end = text.indexOf('\n', start)) {
      if (end > start) handleLine(text.slice(start, end))
      start = end + 1
    }
    if (start < text.length) handleLine(start === 0 ? text : text.slice(start))
  }

  function keepEnds(rest: Buffer): void {
    const first = parts[0] ?? rest
    const before = parts.at(-1)
    const tail = before === undefined ? lastBytes(rest) : lastBytes(Buffer.concat([lastBytes(before), lastBytes(rest)]))
    oversized = { head: first.toString('utf8', 0, END_BYTES), tail: Buffer.from(tail) }
    parts = []
    partsBytes = 0
  }

  function keep(rest: Buffer): void {
    if (rest.length === 0) return
    if (oversized !== undefined) {
      oversized.tail = Buffer.from(lastBytes(Buffer.concat([oversized.tail, lastBytes(rest)])))
    } else if (partsBytes + rest.length > lineBytesMax) {
      keepEnds(rest)
    } else {
      parts.push(rest)
      partsBytes += rest.length
    }
  }

  return {
    push(chunk) {
      let start = 0
      const last = chunk.lastIndexOf(NEWLINE)
      if (partsBytes === 0 && oversized === undefined && last !== -1 && last <= lineBytesMax) {
        splitText(chunk.toString('utf8', 0, last))
        start = last + 1
      }
      for (let end = chunk.indexOf(NEWLINE, start); end !== -1; end = chunk.indexOf(NEWLINE, start)) {
        endLine(chunk.subarray(start, end))
        start = end + 1
      }
      keep(start === 0 ? chunk : chunk.subarray(start))
    },
    onLine(handler) {
      handleLine = handler
    },
    onOversizedLine(handler) {
      handleOversized = handler
    },
  }
}

const lastBytes = (bytes: Buffer): Buffer =>
  bytes.length <= END_BYTES ? bytes : bytes.subarray(bytes.length - END_BYTES)
