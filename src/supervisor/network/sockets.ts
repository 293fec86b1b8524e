import { type ChildProcess, spawn } from 'node:child_process'
import type { Socket as DatagramSocket } from 'node:dgram'
import { createServer, type Server, type Socket } from 'node:net'
import { fileURLToPath } from 'node:url'
import { AppError } from '../../contract/app-error.ts'
import type { Logger } from '../../kernel/logger.ts'

/**
 * Sockets in network namespaces that the supervisor is not in. A socket stays in the namespace in which it was created, so
 * helpers create sockets and pass them to the supervisor: in a workspace's namespace, which the socket maker enters, and in the
 * host's, where the host-network helper runs. Nothing relays the data.
 */
export type Sockets = Readonly<{
  /** Connects to a port in the network namespace of `pid`, at the first address that accepts. */
  connectInside(pid: number, addresses: readonly string[], port: number): Promise<Socket | undefined>
  listenInside(pid: number, address: string, port: number, onConnection: (socket: Socket) => void): Promise<Server>
  datagramsInside(pid: number, address: string, port: number): Promise<Datagrams>
  /** Listens on the host's loopback address. Undefined if the port is taken. */
  listenOnHost(port: number, onConnection: (socket: Socket) => void): Promise<Server | undefined>
  /** Connects from the host to another machine. Undefined if the connection fails or the address is the host's own. */
  connectFromHost(address: string, port: number): Promise<Socket | undefined>
  /** Throws, with what to do about it, if the host-network helper does not answer. */
  requireHost(): Promise<void>
}>

export type Datagrams = DatagramSocket
type Reply = Readonly<{ id: number; failed?: string }>
type Handle = Socket | Datagrams | object | undefined

/** Linux's usual backlog. */
const BACKLOG = 511
/** How long to wait for the host-network helper: it starts after the supervisor, and may be restarting. */
const HOST_NETWORK_WAIT_MS = 5_000

type SocketsDeps = Readonly<{ hostNetworkPath: string; hostNetworkWaitMs?: number; logger: Logger }>

export function startSockets({
  hostNetworkPath,
  hostNetworkWaitMs = HOST_NETWORK_WAIT_MS,
  logger,
}: SocketsDeps): Sockets {
  const script = fileURLToPath(new URL('./socket-maker.pl', import.meta.url))
  const waiting = new Map<number, PromiseWithResolvers<Handle>>()
  let nextNumber = 1
  let maker: ChildProcess | undefined

  function start(): ChildProcess {
    const child = spawn('perl', [script, hostNetworkPath, String(hostNetworkWaitMs)], {
      stdio: ['pipe', 'ignore', 'inherit', 'ipc'],
      env: { PATH: '/usr/bin:/bin' },
    })
    child.on('message', (input: Reply, handle: Handle) => {
      const pending = waiting.get(input.id)
      waiting.delete(input.id)
      if (input.failed === undefined) pending?.resolve(handle)
      else pending?.reject(codeError(input.failed))
    })
    child.stdin!.on('error', () => {})
    const end = (): void => {
      if (maker !== child) return
      maker = undefined
      for (const pending of waiting.values()) pending.reject(codeError('EPIPE'))
      waiting.clear()
      logger.warn('the socket helper has ended; the next request starts another')
    }
    child.on('error', end).on('exit', end)
    return child
  }

  // Started ahead, because the first caller would otherwise wait for Perl to start.
  maker = start()

  function ask<Kind extends Handle>(...words: readonly (string | number)[]): Promise<Kind> {
    maker ??= start()
    const pending = Promise.withResolvers<Handle>()
    waiting.set(nextNumber, pending)
    maker.stdin!.write(`${[nextNumber++, ...words].join(' ')}\n`)
    return pending.promise as Promise<Kind>
  }

  async function askHost<Kind extends Handle>(...words: readonly (string | number)[]): Promise<Kind> {
    return await ask<Kind>('host', ...words).catch((error: NodeJS.ErrnoException) => {
      throw error.code === 'ENOHOSTNETWORK' ? hostNetworkMissing() : error
    })
  }

  return {
    async connectInside(pid, addresses, port) {
      for (const address of addresses) {
        const socket = await ask<Socket>('tcp', pid, address.includes(':') ? 6 : 4).catch(() => undefined)
        if (socket !== undefined && (await connected(socket, address, port))) return socket
      }
      return undefined
    },
    async listenInside(pid, address, port, onConnection) {
      return await serveOn(await ask<object>('listen', pid, address, port), onConnection)
    },
    datagramsInside: (pid, address, port) => ask<Datagrams>('datagrams', pid, address, port),
    async listenOnHost(port, onConnection) {
      try {
        return await serveOn(await askHost<object>('listen', port), onConnection)
      } catch (error) {
        if (['EADDRINUSE', 'EACCES'].includes((error as NodeJS.ErrnoException).code ?? '')) return undefined
        throw error
      }
    },
    async connectFromHost(address, port) {
      try {
        const socket = await askHost<Socket>('connect', address, port)
        socket.allowHalfOpen = true
        return socket
      } catch (error) {
        if (error instanceof AppError) logger.warn(error.message)
        return undefined
      }
    },
    requireHost: () => askHost('hello').then(() => {}),
  }
}

const codeError = (code: string): NodeJS.ErrnoException => Object.assign(new Error(code), { code })

const hostNetworkMissing = (): AppError =>
  new AppError(
    'ERR_CAPABILITY_MISSING',
    "The process that connects workspaces to this machine's network does not answer. Read host-network.log in the workspaces folder of the data directory, then restart the server.",
  )

function serveOn(handle: object, onConnection: (socket: Socket) => void): Promise<Server> {
  return new Promise((resolve, reject) => {
    const server = createServer({ allowHalfOpen: true, noDelay: true }, onConnection)
    server.once('error', reject)
    server.listen(handle, BACKLOG, () => {
      server.off('error', reject).on('error', () => {})
      resolve(server)
    })
  })
}

function connected(socket: Socket, host: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    socket.allowHalfOpen = true
    // This listener stays for the life of the socket: the owner listens for `close`.
    socket.on('error', () => {
      socket.destroy()
      resolve(false)
    })
    socket.setNoDelay(true).connect({ host, port }, () => resolve(true))
  })
}
