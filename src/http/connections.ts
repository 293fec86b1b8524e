import type { Server, ServerResponse } from 'node:http'
import { Server as NetServer, type Socket } from 'node:net'
import { AppError } from '../contract/app-error.ts'
import { limits } from '../contract/limits.ts'
import { callerKey, type Principal, shareFor } from '../contract/principal.ts'

/**
 * Every connection and every response under way, so that the transport can close without cutting an answer short.
 * node:http alone would destroy a connection whose answer is written but not sent out yet.
 */
type Connections = Readonly<{
  isClosing(): boolean
  /** Called for each request, first of all. */
  track(res: ServerResponse): void
  /**
   * Whose a connection is, once a request on it has shown a key. Throws ERR_BUSY where that are too many of one key, or of all
   * but those for whom a share is kept.
   */
  claim(socket: Socket, principal: Principal): void
  /**
   * 1. Nothing new is accepted, and connections without a request end.
   * 2. The others end with their answers. After `graceMs` `failRest` is called to answer what is left.
   * 3. What is still open a moment later is destroyed.
   */
  close(graceMs: number, failRest: () => void): Promise<void>
}>

const FLUSH_MS = 500

export function trackConnections(server: Server): Connections {
  const sockets = new Set<Socket>()
  const open = new Set<ServerResponse>()
  const leaving = new WeakSet<Socket>()
  const byOwner = new Map<string, Set<Socket>>()
  const ownerOf = new WeakMap<Socket, string>()
  let closing: Promise<void> | undefined
  let onEmpty = (): void => {}

  server.on('connection', (socket: Socket) => {
    if (closing !== undefined || sockets.size >= limits.httpConnectionsMax) {
      socket.destroy()
      return
    }
    sockets.add(socket)
    socket.once('close', () => {
      sockets.delete(socket)
      letGo(socket)
      if (sockets.size === 0) onEmpty()
    })
  })

  function letGo(socket: Socket): void {
    const owner = ownerOf.get(socket)
    const held = owner === undefined ? undefined : byOwner.get(owner)
    held?.delete(socket)
    if (held?.size === 0) byOwner.delete(owner!)
  }

  function claim(socket: Socket, principal: Principal): void {
    const owner = callerKey(principal)
    if (ownerOf.get(socket) === owner || socket.destroyed) return
    letGo(socket)
    const held = byOwner.get(owner) ?? new Set()
    const max = shareFor(principal, limits.httpConnectionsMax, limits.httpConnectionsReserved)
    if (held.size >= limits.httpConnectionsPerKeyMax || sockets.size > max) {
      const message = 'Too many connections are open. Close some of yours, or use one for several calls.'
      throw new AppError('ERR_BUSY', message, { retry_after_ms: 1_000 })
    }
    ownerOf.set(socket, owner)
    byOwner.set(owner, held.add(socket))
  }

  function onResponseClosed(this: ServerResponse): void {
    open.delete(this)
    if (closing !== undefined) endIdle()
  }

  function endIdle(): void {
    const busy = new Set([...open].map((res) => res.req.socket))
    for (const socket of sockets) {
      if (busy.has(socket) || leaving.has(socket)) continue
      leaving.add(socket)
      socket.destroySoon()
    }
  }

  async function emptyWithin(timeoutMs: number): Promise<void> {
    if (sockets.size === 0) return
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, timeoutMs)
    onEmpty = resolve
    await promise
    clearTimeout(timer)
  }

  async function close(graceMs: number, failRest: () => void): Promise<void> {
    NetServer.prototype.close.call(server)
    endIdle()
    for (const res of open) if (!res.headersSent) res.shouldKeepAlive = false
    await emptyWithin(graceMs)
    if (sockets.size > 0) {
      failRest()
      await emptyWithin(FLUSH_MS)
    }
    for (const socket of sockets) socket.destroy()
    // Ends the search for slow clients; by now there is nobody left for it to cut off.
    server.close()
  }

  return {
    isClosing: () => closing !== undefined,
    claim,
    track(res) {
      open.add(res)
      res.on('close', onResponseClosed)
    },
    close(graceMs, failRest) {
      if (closing === undefined) {
        const { promise, resolve } = Promise.withResolvers<void>()
        closing = promise
        close(graceMs, failRest).then(resolve, resolve)
      }
      return closing
    },
  }
}
