import type { Socket } from 'node:net'
import type { TunnelEnd } from './open-tunnel.ts'
import { type Target, targetName } from './target.ts'

/** A connection of a workload from its start to its end, whatever protocol it switches to. */
export type ClientConnection = {
  /** The address under which the workload's policy is registered. */
  readonly address: string
  readonly socket: Socket
  /** The targets that this connection was allowed, and whether credentials were added for them. */
  readonly used: Map<string, Readonly<{ target: Target; withCredentials: boolean }>>
  /** Requests without a response yet; a client may pipeline. */
  pending: number
}

/** A transparent connection: the workload believes that it is connected to the host, on this port. */
export type DirectEnd = Readonly<{ directPort: number }>
type End = TunnelEnd | DirectEnd | undefined

type Limits = Readonly<{ connectionsMax: number; connectionsPerAddressMax: number }>

/** A keep-alive connection with more targets is closed, so that the table stays bounded. */
const TARGETS_RETAINED_MAX = 1000

export function createConnectionTable({ connectionsMax, connectionsPerAddressMax }: Limits) {
  const open = new Set<ClientConnection>()
  const countOf = new Map<string, number>()
  const bySocket = new WeakMap<Socket, Readonly<{ connection: ClientConnection; end: End }>>()
  let total = 0

  function remove(connection: ClientConnection): void {
    if (!open.delete(connection)) return
    const left = countOf.get(connection.address)! - 1
    if (left === 0) countOf.delete(connection.address)
    else countOf.set(connection.address, left)
  }

  return {
    /** Returns undefined if there are too many connections. */
    admit(socket: Socket, address: string): ClientConnection | undefined {
      const count = countOf.get(address) ?? 0
      if (open.size >= connectionsMax || count >= connectionsPerAddressMax || socket.destroyed) return undefined
      const connection: ClientConnection = { address, socket, used: new Map(), pending: 0 }
      open.add(connection)
      total += 1
      countOf.set(address, count + 1)
      bySocket.set(socket, { connection, end: undefined })
      socket.once('close', () => remove(connection))
      return connection
    },
    find: (socket: Socket) => bySocket.get(socket),
    /** Makes `socket` the decrypted inside of `connection`. */
    adopt(connection: ClientConnection, socket: Socket, end: TunnelEnd | DirectEnd): void {
      bySocket.set(socket, { connection, end })
    },
    noteUse(connection: ClientConnection, target: Target, withCredentials: boolean): boolean {
      connection.used.set(targetName(target), { target, withCredentials })
      return connection.used.size <= TARGETS_RETAINED_MAX
    },
    ofAddress: (address: string): readonly ClientConnection[] =>
      [...open].filter((connection) => connection.address === address),
    all: (): readonly ClientConnection[] => [...open],
    counts: () => ({ connectionsOpen: open.size, connectionsTotal: total }),
  }
}
