import type { Server, Socket } from 'node:net'
import { AppError } from '../../contract/app-error.ts'
import type { PortRange } from '../../domains/workspaces/backend.ts'
import { joinStreams } from '../egress/join-streams.ts'
import type { Sockets } from './sockets.ts'

/** The ports on the host's loopback address that lead into workspaces. Calls must come one after the other. */
export type HostPorts = Readonly<{
  /** Listens on every port of `wanted` that is not listened on yet: on all of them, or on none more than before. */
  add(wanted: readonly number[]): Promise<void>
  /** Listens no longer on any port but these, and cuts every connection that leads elsewhere than it did. */
  keepOnly(wanted: readonly number[]): void
  /** Whether the port can be listened on now; without one, a port of the range that can, and not the one answered just before. */
  find(wanted: number | undefined, taken: ReadonlySet<number>, range: PortRange): Promise<number | undefined>
}>

/** Where a host port leads: a port in the network of a process. */
export type ForwardTarget = Readonly<{ pid: number; ip: string; guestPort: number }>

type Listening = Readonly<{ server: Server; open: Map<Socket, string> }>

const TRIES_MAX = 200
/** Of one host port at a time; more wait in the queue of the kernel until one ends. */
const CONNECTIONS_MAX = 1_024

export function createHostPorts(
  sockets: Pick<Sockets, 'listenOnHost' | 'connectInside'>,
  targetOf: (hostPort: number) => ForwardTarget | undefined,
): HostPorts {
  const listening = new Map<number, Listening>()
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

  /** Servers listen on loopback in either family, or on the one address of the workspace. */
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
    return true
  }

  return {
    async add(wanted) {
      const added: number[] = []
      for (const port of wanted) {
        if (listening.has(port)) continue
        if (!(await listen(port))) {
          for (const one of added) close(one)
          throw portTaken(port)
        }
        added.push(port)
      }
    },
    keepOnly(wanted) {
      const retained = new Set(wanted)
      for (const [port, { open }] of listening) {
        if (!retained.has(port)) close(port)
        const target = targetOf(port)
        for (const [client, key] of open) if (target === undefined || keyOf(target) !== key) client.destroy()
      }
    },
    async find(wanted, taken, { first, last }) {
      if (wanted !== undefined) return !taken.has(wanted) && (await canListen(wanted)) ? wanted : undefined
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
