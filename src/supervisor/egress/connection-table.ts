import type { Socket } from 'node:net'
import type { TunnelEnd } from './open-tunnel.ts'
import { type Target, targetName } from './target.ts'

/** One connection of a workload, from its first byte to its last, whatever it turns into on the way. */
export type ClientConnection = {
  /** Whose it is, by the name under which its policy is known. */
  readonly address: string
  readonly socket: Socket
  /** Where it has been allowed to go so far, and whether credentials were added there. */
  readonly used: Map<string, Readonly<{ target: Target; withCredentials: boolean }>>
  /** Requests that are not answered yet; a client may send the next before it has the answer to the last. */
  pending: number
}

/** A connection that was not opened to a proxy: the workload takes this side for the host, on this port. */
export type DirectEnd = Readonly<{ directPort: number }>
type End = TunnelEnd | DirectEnd | undefined

type Limits = Readonly<{ connectionsMax: number; connectionsPerAddressMax: number }>

/** A keep-alive connection that has been everywhere is closed rather than remembered without end. */
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
    /** `undefined` when there are too many already. */
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
    /** From now on `socket` is the inside of what `connection` has opened. */
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
