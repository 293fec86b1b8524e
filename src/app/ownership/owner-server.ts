import { createServer, type Server, type Socket } from 'node:net'
import type { Logger } from '../../kernel/logger.ts'
import { type FlowLines, type LineTransport, streamLines } from '../../mcp/line-transport.ts'
import { answerLine, type Hello, PROTOCOL, parseHello, readFirstLine } from './hello.ts'

/** What the process that owns the state does for all. Created by the app, once per ownership. */
export type Owner = Readonly<{
  /** Sent to every process that connects, which may require another mode. */
  mode: string
  /** Also sent to them: problems of the state as a whole. */
  problems?(): readonly string[]
  /** Runs an MCP session for the client in `hello`; the transport is closed when the session ends. */
  serveLines(transport: LineTransport, hello: Hello): void
  /** Takes over an HTTP connection of which no byte has been read. Its remote address is the client's. */
  serveHttp(socket: Socket, hello: Hello): void
  /** Finishes or fails what is in progress, then closes the state. */
  close(): Promise<void>
}>

/**
 * Sent to a bridge before an orderly shutdown: send nothing more, answer HELD, then wait for the next owner. Everything sent
 * before HELD is still answered, so an orderly shutdown fails no call.
 */
export const CLOSING = '{"castellan":"closing"}'
export const HELD = '{"castellan":"held"}'

export type OwnerServer = Readonly<{
  /** Serves connections, including those that came earlier. */
  open(owner: Owner): void
  /** No new connections; resolves when no bridge will send more, or after `holdMs`. */
  hold(holdMs: number): Promise<void>
  /** Flushes pending data and ends all connections. */
  close(): Promise<void>
}>

type OwnerServerOptions = Readonly<{
  socketPath: string
  version: string
  lineBytesMax: number
  logger: Logger
}>

const FLUSH_MS = 500

/** Listens at once, so that others can queue while the state is being opened. */
export async function listenAsOwner(options: OwnerServerOptions): Promise<OwnerServer> {
  const sockets = new Set<Socket>()
  const bridges = new Set<BridgeEnd>()
  const opened = Promise.withResolvers<Owner | undefined>()
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    sockets.add(socket)
    socket.on('error', () => socket.destroy())
    socket.on('close', () => sockets.delete(socket))
    void accept(options, socket, opened.promise, bridges)
  })
  await listenPrivately(server, options.socketPath)
  server.on('error', (error) => options.logger.error('the owner socket failed', { error: error.message }))

  return {
    open: (owner) => opened.resolve(owner),
    async hold(holdMs) {
      server.close()
      const held = [...bridges].map((bridge) => bridge.hold())
      await within(holdMs, Promise.all(held))
    },
    async close() {
      opened.resolve(undefined)
      server.close()
      for (const bridge of bridges) bridge.transport.close()
      const finished = [...sockets].map((socket) => new Promise<void>((resolve) => socket.end(resolve)))
      await within(FLUSH_MS, Promise.all(finished))
      for (const socket of sockets) socket.destroy()
    },
  }
}

/** The socket file is private to its user from the first moment. */
function listenPrivately(server: Server, socketPath: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    const mask = process.umask(0o177)
    try {
      server.listen(socketPath, resolve)
    } finally {
      process.umask(mask)
    }
  })
}

async function accept(
  options: OwnerServerOptions,
  socket: Socket,
  opened: Promise<Owner | undefined>,
  bridges: Set<BridgeEnd>,
): Promise<void> {
  const line = await readFirstLine(socket)
  const parsed = line === undefined ? undefined : parseHello(line)
  const owner = parsed === undefined ? undefined : await opened
  if (parsed === undefined || owner === undefined || socket.destroyed) {
    socket.destroy()
    return
  }
  const { mode } = owner
  const problems = owner.problems?.() ?? []
  const told = problems.length === 0 ? {} : { problems }
  socket.write(`${answerLine({ pid: process.pid, version: options.version, mode, ...told })}\n`)
  if (parsed.protocol !== PROTOCOL) {
    options.logger.warn('refused a connection from another version of castellan', { protocol: parsed.protocol })
    socket.end()
    return
  }
  serve(options, owner, socket, parsed.hello, bridges)
}

function serve(
  { lineBytesMax }: OwnerServerOptions,
  owner: Owner,
  socket: Socket,
  hello: Hello,
  bridges: Set<BridgeEnd>,
): void {
  switch (hello.transport) {
    case 'watch':
      socket.on('end', () => socket.end())
      socket.resume()
      return
    case 'http':
      showRemote(socket, hello)
      owner.serveHttp(socket, hello)
      return
    default: {
      const lines = streamLines({ input: socket, output: socket, lineBytesMax, pauseInputWhenFull: true })
      const bridge = createBridgeEnd(lines, () => bridges.delete(bridge))
      bridges.add(bridge)
      owner.serveLines(bridge.transport, hello)
    }
  }
}

/** A relayed socket reports the client's address, not the local socket. */
function showRemote(socket: Socket, { remote }: Hello): void {
  if (remote === undefined) return
  const { address, port, localAddress, localPort } = remote
  const displayed = { remoteAddress: address, remotePort: port, localAddress, localPort }
  for (const [key, value] of Object.entries(displayed))
    Object.defineProperty(socket, key, { value, configurable: true })
}

type BridgeEnd = Readonly<{ transport: LineTransport; hold(): Promise<void> }>

/** The owner's end of a bridge: the session's lines, without the messages about holding. */
function createBridgeEnd(lines: FlowLines, onClosed: () => void): BridgeEnd {
  const held = Promise.withResolvers<void>()
  let isClosed = false
  let sessionClosed = (): void => {}
  lines.onClose(() => {
    isClosed = true
    held.resolve()
    onClosed()
    sessionClosed()
  })
  return {
    transport: {
      onLine: (handler) =>
        lines.onLine((line) => {
          if (line === HELD) held.resolve()
          else handler(line)
        }),
      send: (line) => void lines.send(line),
      onClose: (handler) => {
        sessionClosed = handler
        if (isClosed) handler()
      },
      close: () => lines.close(),
    },
    hold: () => {
      lines.send(CLOSING)
      return held.promise
    },
  }
}

async function within(timeoutMs: number, work: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const timeout = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, timeoutMs)
  })
  await Promise.race([work, timeout])
  clearTimeout(timer)
}
