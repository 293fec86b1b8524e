import type { Readable, Writable } from 'node:stream'

/**
 * Newline-delimited text in both directions; what MCP sessions run on. Lines have no line end. The handlers are set once,
 * by the one user of the transport; nothing is read before there is a line handler.
 */
export type LineTransport = Readonly<{
  onLine(handler: (line: string) => void): void
  send(line: string): void
  /** Nothing more will arrive. What is sent afterwards still goes out, until `close`. */
  onClose(handler: () => void): void
  /** What was sent goes out first. */
  close(): void
}>

/** A transport that can be slowed down, so that a slow reader costs no memory here. */
export type FlowLineTransport = Omit<LineTransport, 'send'> &
  Readonly<{
    /** False: taken, but wait for `onDrain` before sending more. */
    send(line: string): boolean
    onDrain(handler: () => void): void
    pause(): void
    resume(): void
  }>

export type LineSplitter = Readonly<{ push(chunk: Buffer): void }>

const NEWLINE = 0x0a

/**
 * Cuts bytes into lines. Bytes are decoded only in whole lines, so a character never splits; a line over the limit is
 * dropped as it arrives and reported when it ends.
 */
export function createLineSplitter(options: {
  lineBytesMax: number
  onLine: (line: string) => void
  onOversize: () => void
}): LineSplitter {
  const { lineBytesMax, onLine, onOversize } = options
  let carry: Buffer[] = []
  let carryBytes = 0
  let isOversize = false

  const keep = (rest: Buffer): void => {
    if (rest.length === 0) return
    carryBytes += rest.length
    if (isOversize || carryBytes > lineBytesMax) {
      isOversize = true
      carry = []
    } else carry.push(rest)
  }
  const deliver = (text: string): void => {
    const line = text.endsWith('\r') ? text.slice(0, -1) : text
    if (line !== '') onLine(line)
  }

  return {
    push(chunk) {
      let start = 0
      if (carryBytes > 0) {
        const end = chunk.indexOf(NEWLINE)
        keep(end === -1 ? chunk : chunk.subarray(0, end))
        if (end === -1) return
        const text = isOversize ? undefined : Buffer.concat(carry).toString('utf8')
        carry = []
        carryBytes = 0
        isOversize = false
        start = end + 1
        if (text === undefined) onOversize()
        else deliver(text)
      }
      const last = chunk.lastIndexOf(NEWLINE)
      if (last < start) {
        keep(chunk.subarray(start))
        return
      }
      if (last - start > lineBytesMax) {
        while (start <= last) {
          const end = chunk.indexOf(NEWLINE, start)
          if (end - start > lineBytesMax) onOversize()
          else deliver(chunk.toString('utf8', start, end))
          start = end + 1
        }
      } else {
        for (const text of chunk.toString('utf8', start, last).split('\n')) deliver(text)
      }
      keep(chunk.subarray(last + 1))
    },
  }
}

export type StreamLinesOptions = Readonly<{
  input: Readable
  output: Writable
  lineBytesMax: number
  /** A line over the limit came in and was dropped. */
  onOversize?: () => void
  /**
   * Stop reading while the peer does not take what we send. For the end that answers requests; an end that only passes
   * lines on must keep reading, or both ends could wait for each other.
   */
  pauseInputWhenFull: boolean
  /** The peer is given up when this much waits for it. */
  bufferedBytesMax?: number
}>

const BUFFERED_BYTES_MAX = 64 * 1024 * 1024

/** Lines over a pair of streams, or over one duplex stream given twice. Lines sent in one turn leave in one write. */
export function streamLines(options: StreamLinesOptions): FlowLineTransport {
  const { input, output, lineBytesMax, pauseInputWhenFull, bufferedBytesMax = BUFFERED_BYTES_MAX } = options
  let outgoing = ''
  let isFlushScheduled = false
  let isFull = false
  let isEnded = false
  let isClosed = false
  let isPausedByUser = false
  let lineHandler: (line: string) => void = () => {}
  let closeHandler: (() => void) | undefined
  let drainHandler: (() => void) | undefined

  const flow = (): void => {
    if (isPausedByUser || (pauseInputWhenFull && isFull)) input.pause()
    else input.resume()
  }
  const ended = (): void => {
    if (isEnded) return
    isEnded = true
    closeHandler?.()
  }
  const flush = (): void => {
    isFlushScheduled = false
    if (outgoing === '' || output.destroyed) return
    const text = outgoing
    outgoing = ''
    const hasRoom = output.write(text)
    if (output.writableLength > bufferedBytesMax) output.destroy()
    if (hasRoom || isFull) return
    isFull = true
    flow()
  }
  const splitter = createLineSplitter({
    lineBytesMax,
    onLine: (line) => lineHandler(line),
    onOversize: options.onOversize ?? (() => {}),
  })

  input.on('data', (chunk: Buffer) => splitter.push(chunk))
  input.pause()
  for (const event of ['end', 'close', 'error']) input.on(event, ended)
  for (const event of ['close', 'error']) output.on(event, ended)
  output.on('drain', () => {
    isFull = false
    flow()
    drainHandler?.()
  })

  return {
    onLine(handler) {
      lineHandler = handler
      flow()
    },
    send(line) {
      if (isClosed) return true
      outgoing += `${line}\n`
      if (!isFlushScheduled) {
        isFlushScheduled = true
        setImmediate(flush)
      }
      return !isFull
    },
    onClose(handler) {
      closeHandler = handler
      if (isEnded) handler()
    },
    onDrain(handler) {
      drainHandler = handler
    },
    pause() {
      isPausedByUser = true
      flow()
    },
    resume() {
      isPausedByUser = false
      flow()
    },
    close() {
      if (isClosed) return
      isClosed = true
      flush()
      const same = (input as unknown) === output
      if (output.writable) output.end(() => same && input.destroy())
      else if (same) input.destroy()
      if (!same) input.destroy()
    },
  }
}

/**
 * Two ends in one process; a line is handed over in the sender's turn. Closing one end tells the other, which may still
 * send what it has until it closes too.
 */
export function createLinePair(): readonly [FlowLineTransport, FlowLineTransport] {
  type End = { handler?: (line: string) => void; early: string[]; onClose?: () => void; isClosed: boolean }
  const ends: readonly [End, End] = [
    { early: [], isClosed: false },
    { early: [], isClosed: false },
  ]
  const transport = (own: End, other: End): FlowLineTransport => ({
    onLine(handler) {
      own.handler = handler
      const { early } = own
      own.early = []
      for (const line of early) handler(line)
    },
    send(line) {
      if (own.isClosed) return true
      if (other.handler === undefined) other.early.push(line)
      else other.handler(line)
      return true
    },
    onClose(handler) {
      own.onClose = handler
      if (other.isClosed) handler()
    },
    onDrain() {},
    pause() {},
    resume() {},
    close() {
      if (own.isClosed) return
      own.isClosed = true
      other.onClose?.()
    },
  })
  return [transport(ends[0], ends[1]), transport(ends[1], ends[0])]
}
