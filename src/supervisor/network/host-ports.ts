import type { Server, Socket } from 'node:net'
import { setTimeout } from 'node:timers/promises'
import { AppError } from '../../contract/app-error.ts'
import type { PortRange } from '../../domains/workspaces/backend.ts'
import { joinStreams } from '../egress/join-streams.ts'
import type { Sockets } from './sockets.ts'

/** Ports on the host's loopback address that are forwarded to workspaces. The caller serialises calls. */
export type HostPorts = Readonly<{
  /** Listens on every requested port. On an error, on none more than before. */
  add(requested: readonly number[]): Promise<void>
  /** Stops listening on all other ports, and closes connections whose target has changed. */
  keepOnly(ports: readonly number[]): void
  /** Whether the port is free; without one, a free port of the range that is not the one returned last. */
  find(requested: number | undefined, taken: ReadonlySet<number>, range: PortRange): Promise<number | undefined>
}>

/** The target of a forward: a port in the network namespace of a process. */
export type ForwardTarget = Readonly<{ pid: number; ip: string; guestPort: number }>

type Listening = Readonly<{ server: Server; open: Map<Socket, string> }>

const TRIES_MAX = 200
const RELEASE_TRIES_MAX = 20
const RELEASE_PAUSE_MS = 10
/** Per host port. Further connections wait in the kernel's backlog. */
const CONNECTIONS_MAX = 1_024

export function createHostPorts(
  sockets: Pick<Sockets, 'listenOnHost' | 'connectInside'>,
  targetOf: (hostPort: number) => ForwardTarget | undefined,
): HostPorts {
  const listening = new Map<number, Listening>()
  /** Ports that were found free and not used since; there are only so many ports. */
  const found = new Set<number>()
  let cursor = 0

  async function listen(port: number): Promise<boolean> {
    const open = new Map<Socket, string>()
    const server = await sockets.listenOnHost(port, (client) => {
      client.on('error', () => client.destroy())
      client.once('close', () => open.delete(client))
      const target = targetOf(port)
      if (target === undefined) return void client.resetAndDestroy()
      open.set(client, keyOf(target))
      void lead(client, target)
    })
    if (server === undefined) return false
    server.maxConnections = CONNECTIONS_MAX
    listening.set(port, { server, open })
    return true
  }

  /** Servers listen on loopback in either address family, or on the workspace's own address. */
  async function lead(client: Socket, { pid, ip, guestPort }: ForwardTarget): Promise<void> {
    const inside = await sockets.connectInside(pid, ['127.0.0.1', '::1', ip], guestPort)
    if (inside === undefined) return void client.resetAndDestroy()
    if (client.destroyed) return void inside.destroy()
    joinStreams(client, inside)
  }

  function close(port: number): void {
    const found = listening.get(port)
    if (found === undefined) return
    listening.delete(port)
    found.server.close()
    for (const client of found.open.keys()) client.destroy()
  }

  async function canListen(port: number): Promise<boolean> {
    if (listening.has(port) || !(await listen(port))) return false
    close(port)
    found.add(port)
    return true
  }

  /** The helper that made the socket may hold a port for a moment longer after it was found free. */
  async function listenWhenReleased(port: number): Promise<boolean> {
    for (let tries = 0; ; tries++) {
      if (await listen(port)) return true
      if (!found.has(port) || tries === RELEASE_TRIES_MAX) return false
      await setTimeout(RELEASE_PAUSE_MS)
    }
  }

  return {
    async add(requested) {
      const added: number[] = []
      for (const port of requested) {
        if (listening.has(port)) continue
        if (!(await listenWhenReleased(port))) {
          for (const one of added) close(one)
          throw portTaken(port)
        }
        found.delete(port)
        added.push(port)
      }
    },
    keepOnly(ports) {
      const retained = new Set(ports)
      for (const [port, { open }] of listening) {
        if (!retained.has(port)) close(port)
        const target = targetOf(port)
        for (const [client, key] of open) if (target === undefined || keyOf(target) !== key) client.destroy()
      }
    },
    async find(requested, taken, { first, last }) {
      if (requested !== undefined) return !taken.has(requested) && (await canListen(requested)) ? requested : undefined
      const count = last - first + 1
      for (let tries = 0; tries < Math.min(TRIES_MAX, count); tries++) {
        const port = first + (cursor++ % count)
        if (!taken.has(port) && (await canListen(port))) return port
      }
      return undefined
    },
  }
}

const keyOf = ({ pid, guestPort }: ForwardTarget): string => `${pid}:${guestPort}`

export function portTaken(hostPort: number): AppError {
  return new AppError(
    'ERR_ALREADY_EXISTS',
    `host_port ${hostPort} is in use on the host. Choose another, or leave host_port out to get a free one.`,
    { host_port: hostPort },
  )
}
