import type { Server, ServerResponse } from 'node:http'
import { Server as NetServer, type Socket } from 'node:net'
import { AppError } from '../contract/app-error.ts'
import { limits } from '../contract/limits.ts'
import { callerKey, type Principal, shareFor } from '../contract/principal.ts'
import { SlotSet } from '../kernel/slot-set.ts'

/**
 * Every connection and every response in progress, so that the transport can close without truncating an answer. node:http alone
 * would destroy a connection whose answer is written but not sent.
 */
export type Connections = Readonly<{
  isClosing(): boolean
  /** Called for each request of `node:http`, first of all. */
  track(res: ServerResponse): void
  /** For an answer past `node:http`: its beginning, and its end, whether or not it was sent. */
  begin(answer: Answering): void
  ended(answer: Answering): void
  /**
   * The principal of a connection, once a request on it has shown a key. Throws ERR_BUSY if that key has too many, or all have
   * too many except those with a reserved share.
   */
  claim(socket: Socket, principal: Principal): void
  /**
   * 1. Nothing new is accepted, and connections without a request end.
   * 2. The others end with their answers. After `graceMs` `failRest` is called to answer the rest.
   * 3. What is still open a moment later is destroyed.
   */
  close(graceMs: number, failRest: () => void): Promise<void>
}>

/** An answer in progress. If it should not keep its connection alive, its sender ends the connection after it. */
export type Answering = Readonly<{ req: Readonly<{ socket: Socket }>; headersSent: boolean }> & {
  shouldKeepAlive: boolean
}

const FLUSH_MS = 500

export function trackConnections(server: Server): Connections {
  const sockets = new Set<Socket>()
  const open = new SlotSet<Answering>()
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

  function ended(answer: Answering): void {
    open.delete(answer)
    if (closing !== undefined) endIdle()
  }

  function onResponseClosed(this: ServerResponse): void {
    ended(this)
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
    // Ends the check for slow clients; by now nobody is left to cut off.
    server.close()
  }

  return {
    isClosing: () => closing !== undefined,
    claim,
    track(res) {
      open.add(res)
      res.on('close', onResponseClosed)
    },
    begin: (answer) => open.add(answer),
    ended,
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
