import { PassThrough } from 'node:stream'
import type { JSONRPCMessage, Transport } from '@modelcontextprotocol/client'
import { limits } from '../contract/limits.ts'
import type { CommandEnd, CommandRequest } from './ports.ts'

export type StdioTransportDeps = Readonly<{
  run(request: Pick<CommandRequest, 'stdin' | 'signal' | 'onOutput'>): Promise<CommandEnd>
  /** A line of what is not a message. */
  onLine(line: string): void
}>

/** MCP over the standard streams of a command. When it is closed, the command has ended. */
export function createStdioTransport(deps: StdioTransportDeps): Transport & Readonly<{ ended: Promise<void> }> {
  const input = new PassThrough()
  const end = new AbortController()
  const finished = Promise.withResolvers<void>()
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
    if (typeof message === 'object' && message !== null && 'jsonrpc' in message) transport.onmessage?.(message)
    else deps.onLine(line)
  }, overflow)
  const errors = splitLines(deps.onLine, () => {})

  function overflow(): void {
    transport.onerror?.(new Error(`a message of the server has more than ${limits.mcpMessageBytesMax} bytes`))
    end.abort()
  }

  const transport: Transport & Readonly<{ ended: Promise<void> }> = {
    ended: finished.promise,
    async start() {
      deps
        .run({
          stdin: input,
          signal: end.signal,
          onOutput: (stream, chunk) => (stream === 'stdout' ? messages : errors).add(chunk),
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
          input.destroy()
          finished.resolve()
          transport.onclose?.()
        })
    },
    async send(message) {
      if (input.destroyed || input.writableEnded) throw new Error('the server has ended')
      if (input.write(`${JSON.stringify(message)}\n`)) return
      await new Promise<void>((resolve) => {
        input.once('drain', resolve).once('close', resolve)
      })
    },
    /** A server that is told that nothing more comes has a moment to end by itself. */
    async close() {
      input.end()
      grace ??= setTimeout(() => end.abort(), limits.mcpServerEndGraceMs)
      await finished.promise
    },
  }
  return transport
}

/** Whole lines out of pieces. What has no end in sight is given up. */
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
      let rest = Buffer.from(chunk)
      for (let end = rest.indexOf(0x0a); end !== -1; end = rest.indexOf(0x0a)) {
        pending.push(rest.subarray(0, end))
        onLine(take())
        rest = rest.subarray(end + 1)
      }
      if (rest.length === 0) return
      pending.push(rest)
      length += rest.length
      if (length <= limits.mcpMessageBytesMax) return
      take()
      onOverflow()
    },
    end(): void {
      if (length > 0) onLine(take())
    },
  }
}
