import type { Writable } from 'node:stream'
import type { JSONRPCMessage, Transport } from '@modelcontextprotocol/client'
import { limits } from '../contract/limits.ts'
import type { CommandEnd, CommandRequest } from './ports.ts'

type StdioTransportDeps = Readonly<{
  run(
    request: Pick<CommandRequest, 'signal' | 'onOutput'> & Required<Pick<CommandRequest, 'onPipes'>>,
  ): Promise<CommandEnd>
  /** Called for each line that is not a message. */
  onLine(line: string): void
}>

export type StdioTransport = Transport &
  Readonly<{
    ended: Promise<void>
    /** As `send`; returns a promise only while the reader is slow. `isUrgent` for a message that a waiting server should have at once. */
    post(message: JSONRPCMessage, isUrgent: boolean): Promise<void> | undefined
  }>

/** MCP over the standard streams of a command. Closing it ends the command. */
export function createStdioTransport(deps: StdioTransportDeps): StdioTransport {
  const end = new AbortController()
  const finished = Promise.withResolvers<void>()
  const input = gatherLines()
  let grace: NodeJS.Timeout | undefined

  const messages = splitLines((line) => {
    if (line.trim() === '') return
    let message: JSONRPCMessage
    try {
      message = JSON.parse(line) as JSONRPCMessage
    } catch {
      deps.onLine(line)
      return
    }
    if (typeof message === 'object' && message !== null && 'jsonrpc' in message) receive(message)
    else deps.onLine(line)
  }, overflow)
  const errors = splitLines(deps.onLine, () => {})

  /** Nobody has checked its members. What cannot be read must not end this process. */
  function receive(message: JSONRPCMessage): void {
    try {
      transport.onmessage?.(message)
    } catch (error) {
      transport.onerror?.(new Error('a message of the server cannot be read', { cause: error }))
    }
  }

  function overflow(): void {
    transport.onerror?.(new Error(`a message of the server has more than ${limits.mcpMessageBytesMax} bytes`))
    end.abort()
  }

  const transport: StdioTransport = {
    ended: finished.promise,
    async start() {
      deps
        .run({
          signal: end.signal,
          onPipes({ stdin, stdout }) {
            stdout.on('data', messages.add)
            input.open(stdin)
          },
          onOutput: (_, chunk) => errors.add(chunk),
        })
        .then(
          ({ exitCode }) => {
            if (!end.signal.aborted)
              deps.onLine(`the process ended (${exitCode === null ? 'by a signal' : `exit code ${exitCode}`})`)
          },
          (error: unknown) => {
            if (!end.signal.aborted) transport.onerror?.(error instanceof Error ? error : new Error(String(error)))
          },
        )
        .finally(() => {
          clearTimeout(grace)
          messages.end()
          errors.end()
          input.close()
          finished.resolve()
          transport.onclose?.()
        })
    },
    async send(message) {
      const waiting = input.add(JSON.stringify(message), false)
      if (waiting !== undefined) await waiting
    },
    post: (message, isUrgent) => input.add(JSON.stringify(message), isUrgent),
    /** After the end of its input, a server has a moment to exit by itself. */
    async close() {
      input.finish()
      grace ??= setTimeout(() => end.abort(), limits.mcpServerEndGraceMs)
      await finished.promise
    },
  }
  return transport
}

/**
 * Buffers lines for a stream that may not be open yet. Lines of one turn of the event loop go into one write, unless one is urgent.
 */
function gatherLines() {
  let stream: Writable | undefined
  let text = ''
  let isScheduled = false
  let isFinished = false

  function flush(): void {
    if (stream === undefined || stream.destroyed || stream.writableEnded) return
    if (text !== '') stream.write(text)
    text = ''
    if (isFinished) stream.end()
  }
  return {
    open(opened: Writable): void {
      stream = opened
      flush()
    },
    /** Returns a promise while the reader is slow. */
    add(line: string, isUrgent: boolean): Promise<void> | undefined {
      if (isFinished || stream?.destroyed === true) throw new Error('the server has ended')
      text += `${line}\n`
      if (isUrgent) flush()
      else if (!isScheduled) {
        isScheduled = true
        setImmediate(() => {
          isScheduled = false
          flush()
        })
      }
      if (stream?.writableNeedDrain !== true) return undefined
      return new Promise((resolve) => {
        stream!.once('drain', resolve).once('close', resolve)
      })
    },
    finish(): void {
      isFinished = true
      flush()
    },
    close(): void {
      isFinished = true
      stream?.destroy()
    },
  }
}

const NEWLINE = 0x0a

/** Joins chunks into lines. `onOverflow` is called for a line that is too long. */
function splitLines(onLine: (line: string) => void, onOverflow: () => void) {
  let pending: Buffer[] = []
  let length = 0
  function take(): string {
    const line = Buffer.concat(pending).toString('utf8')
    pending = []
    length = 0
    return line
  }
  return {
    add(chunk: Uint8Array): void {
      const bytes = Buffer.isBuffer(chunk) ? chunk : Buffer.from(chunk)
      let start = 0
      for (let end = bytes.indexOf(NEWLINE); end !== -1; end = bytes.indexOf(NEWLINE, start)) {
        if (length === 0) onLine(bytes.toString('utf8', start, end))
        else {
          pending.push(bytes.subarray(start, end))
          onLine(take())
        }
        start = end + 1
      }
      if (start === bytes.length) return
      pending.push(bytes.subarray(start))
      length += bytes.length - start
      if (length <= limits.mcpMessageBytesMax) return
      take()
      onOverflow()
    },
    end(): void {
      if (length > 0) onLine(take())
    },
  }
}
