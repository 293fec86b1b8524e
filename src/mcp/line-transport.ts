import type { Readable, Writable } from 'node:stream'
import { limits } from '../contract/limits.ts'
import { LineSplitter, type OversizedLine } from './line-splitter.ts'

/**
 * One JSON-RPC message per line, in both directions.
 * 1. A line that is too long is never held in memory: its two ends are reported and the next line is read as usual.
 * 2. Lines sent in one turn of the event loop leave in one write.
 * 3. `onClose` fires once, when nothing more can be received; `send` still works then until `close`.
 */
export type LineTransport = Readonly<{
  onLine(handler: (line: string) => void): void
  /** Absent when the transport cannot receive an oversized line. */
  onOversizedLine?(handler: (line: OversizedLine) => void): void
  onClose(handler: () => void): void
  send(line: string): void
  /** Writes pending lines, then ends. */
  close(): void
}>

/**
 * A line transport with backpressure, so that a slow reader costs no memory here. Nothing is read before there is a line handler.
 */
export type FlowLines = Omit<LineTransport, 'send' | 'close' | 'onOversizedLine'> &
  Readonly<{
    /** False: accepted, but wait for `onDrain` before sending more. */
    send(line: string): boolean
    onOversizedLine(handler: (line: OversizedLine) => void): void
    onDrain(handler: () => void): void
    pause(): void
    resume(): void
    /** Resolves when everything sent has left this process, or never can. */
    close(): Promise<void>
  }>

type StreamLinesOptions = Readonly<{
  input: Readable
  output: Writable
  lineBytesMax: number
  /**
   * Stop reading while the peer does not read. For the end that answers requests; an end that only forwards lines must keep
   * reading, or both ends could wait for each other.
   */
  pauseInputWhenFull: boolean
  /** The connection is closed when this much is pending. */
  bufferedBytesMax?: number
}>

const BUFFERED_BYTES_MAX = 64 * 1024 * 1024

/** The client on a process's standard streams. */
export const stdioLines = (input: Readable, output: Writable): FlowLines =>
  streamLines({ input, output, lineBytesMax: limits.messageBytesMax, pauseInputWhenFull: true })

/** Lines over a pair of streams, or over one duplex stream given twice. Closing ends both. */
export function streamLines(options: StreamLinesOptions): FlowLines {
  const { input, output, pauseInputWhenFull } = options
  const splitter = new LineSplitter(options.lineBytesMax)
  let isListening = false
  let isEnded = false
  let isPausedByUser = false
  let closeHandler: (() => void) | undefined
  let drainHandler: (() => void) | undefined

  const outbox = createOutbox(output, options.bufferedBytesMax ?? BUFFERED_BYTES_MAX, () => {
    flow()
    if (!outbox.isFull()) drainHandler?.()
  })
  const flow = (): void => {
    if (!isListening || isPausedByUser || (pauseInputWhenFull && outbox.isFull())) input.pause()
    else input.resume()
  }
  const ended = (): void => {
    if (isEnded) return
    isEnded = true
    closeHandler?.()
  }
  const pauseByUser = (isPaused: boolean): void => {
    isPausedByUser = isPaused
    flow()
  }

  input.on('data', (chunk: Buffer) => splitter.push(chunk))
  input.on('end', () => splitter.end())
  input.pause()
  for (const event of ['end', 'close', 'error']) input.on(event, ended)
  for (const event of ['close', 'error']) output.on(event, ended)
  // A stream that has already ended emits no event.
  if (input.readableEnded || input.destroyed) process.nextTick(ended)

  return {
    onLine(handler) {
      splitter.onLine = handler
      isListening = true
      flow()
    },
    onOversizedLine(handler) {
      splitter.onOversizedLine = handler
    },
    send: outbox.send,
    onClose(handler) {
      closeHandler = handler
      if (isEnded) handler()
    },
    onDrain(handler) {
      drainHandler = handler
    },
    pause: () => pauseByUser(true),
    resume: () => pauseByUser(false),
    async close() {
      splitter.onLine = () => {}
      isListening = false
      flow()
      await outbox.end()
      input.destroy()
    },
  }
}

type Outbox = Readonly<{ send(line: string): boolean; isFull(): boolean; end(): Promise<void> }>

/** Lines sent in one turn leave in one write. `onFlow` reports that the outbox became full or empty. */
function createOutbox(output: Writable, bufferedBytesMax: number, onFlow: () => void): Outbox {
  let outgoing = ''
  let isFull = false
  let isEnded = false
  const closed = Promise.withResolvers<void>()
  const flush = (): void => {
    if (outgoing === '' || output.destroyed) return
    const text = outgoing
    outgoing = ''
    const hasSpace = output.write(text)
    if (output.writableLength > bufferedBytesMax) output.destroy()
    if (hasSpace || isFull) return
    isFull = true
    onFlow()
  }
  output.on('drain', () => {
    isFull = false
    onFlow()
  })
  return {
    send(line) {
      if (isEnded) return true
      if (outgoing === '') process.nextTick(flush)
      outgoing += `${line}\n`
      return !isFull
    },
    isFull: () => isFull,
    end() {
      if (isEnded) return closed.promise
      isEnded = true
      flush()
      output.once('close', closed.resolve)
      if (output.writable) output.end(closed.resolve)
      else closed.resolve()
      return closed.promise
    },
  }
}
