import type { ServerResponse } from 'node:http'
import { type Server, WebStandardStreamableHTTPServerTransport } from '@modelcontextprotocol/server'
import { limits } from '../contract/limits.ts'
import type { McpSessionMemory } from '../contract/mcp-sessions.ts'
import { type Principal, shareFor, type TenantId } from '../contract/principal.ts'
import type { Clock } from '../kernel/clock.ts'
import { sha256Hex } from '../kernel/hash.ts'
import type { Random } from '../kernel/random.ts'
import type { Counted, InFlightCall } from '../tools/runtime/in-flight-calls.ts'
import type { Presence } from '../tools/runtime/presence.ts'
import type { ToolCaller } from '../tools/runtime/tool-host.ts'
import { createProtocolServer, type ProtocolConnection, type ProtocolDeps } from './protocol-server.ts'
import { identityOf, inSession, isOf } from './session-identity.ts'
import { createSubscriptions } from './subscriptions.ts'
import type { RequestId } from './wire.ts'

/**
 * Sessions of clients that speak a revision before 2026-07-28 over HTTP.
 * 1. A session belongs to the identity that opened it; for any other it does not exist.
 * 2. A session with a request under way or an open stream is busy; any other is idle.
 * 3. One that was idle for `limits.httpSessionIdleMs` is gone; so is one in which nothing came after `initialize` within
 *    `limits.httpSessionUnusedMs`.
 * 4. An identity has at most `limits.httpSessionsPerIdentityMax`; past that its own oldest idle session makes room. All have
 *    at most `limits.httpSessionsMax`; past that the oldest idle one of the identity that holds the most makes room, or else
 *    the oldest of it that only listens: for those who hold fewer, never for those who hold more. Of an identity's sessions
 *    those that were never used go first. So nobody locks others out by opening many, and clients that never end theirs lock
 *    nobody out.
 * 5. Others never take the share that is kept for the local owner and for operators of the installation.
 * 6. The sessions of a key end with it.
 * 7. A session at a gateway outlives the process: its client goes on with it after a restart, for as long as it would have been idle.
 */
export type HttpSession = {
  readonly id: string
  readonly owner: string
  readonly server: Server
  readonly connection: ProtocolConnection
  readonly transport: WebStandardStreamableHTTPServerTransport
  /** Aborted with the session. */
  readonly ended: AbortController
  readonly calls: Counted
  readonly callsById: Map<RequestId, InFlightCall>
  /** The principal of the newest request, as the transport found it. */
  latest: Principal
  caller: ToolCaller
  /** Responses under way, and those of them that only listen; the calls of the hot path are in `calls` alone. */
  responses: number
  streams: number
  /** When it was last noted on disk that it is in use; undefined for a session that ends with the process. */
  rememberedMs: number | undefined
  /** Resolves when a session that ended is not on disk any more. */
  forgotten: Promise<void> | undefined
  /** Something came after `initialize`. */
  isUsed: boolean
  lastUsedMs: number
}

export type HttpSessions = Readonly<{
  /** `undefined` when there are too many, and none of those that could make room is idle. */
  open(caller: ToolCaller): Promise<HttpSession | undefined>
  /** The session, if it exists and belongs to this principal; counts as use. */
  find(id: string, principal: Principal): HttpSession | undefined
  /** A session at a gateway from before a restart. Not there, not of this principal and idle for too long are the same: undefined. */
  restore(
    id: string,
    principal: Principal,
    callerOf: (clientName: string) => ToolCaller,
  ): Promise<HttpSession | undefined>
  /** From here on the session outlives the process. */
  remember(session: HttpSession, initialize: unknown): Promise<void>
  /** The session is busy until this response is closed. */
  hold(session: HttpSession, res: ServerResponse, kind?: 'request' | 'stream'): void
  end(session: HttpSession): void
  all(): Iterable<HttpSession>
  /** Ends every session that has been idle for too long. */
  sweep(): void
  close(): Promise<void>
}>

type SessionsDeps = ProtocolDeps &
  Readonly<{
    clock: Clock
    random: Random
    presence: Presence
    sessionMemory: (() => Promise<McpSessionMemory | undefined>) | undefined
  }>

const SESSION_ID_BYTES = 24
const SWEEP_INTERVAL_MS = 30_000
/** A session in use is found to be idle by so much too early after a crash. */
const REMEMBER_INTERVAL_MS = 60_000

export function createHttpSessions(deps: SessionsDeps): HttpSessions {
  const { clock, random, logger } = deps
  const sessions = new Map<string, HttpSession>()
  const byOwner = new Map<string, Set<HttpSession>>()
  const watches = new Map<HttpSession, () => void>()
  const timer = setInterval(sweep, SWEEP_INTERVAL_MS)
  timer.unref()
  deps.presence.onRevoked((tenant, owner) => {
    for (const session of sessions.values()) if (isOf(session.caller.principal, tenant, owner)) end(session)
  })

  function isExpired(session: HttpSession): boolean {
    const idleMs = session.isUsed ? limits.httpSessionIdleMs : limits.httpSessionUnusedMs
    return isIdle(session) && clock.monotonicMs() - session.lastUsedMs > idleMs
  }
  function add(session: HttpSession): void {
    sessions.set(session.id, session)
    watches.set(session, deps.presence.watch(session.caller.principal))
    const own = byOwner.get(session.owner)
    if (own === undefined) byOwner.set(session.owner, new Set([session]))
    else own.add(session)
  }
  function end(session: HttpSession): void {
    if (!sessions.delete(session.id)) return
    watches.get(session)?.()
    watches.delete(session)
    const own = byOwner.get(session.owner)
    own?.delete(session)
    if (own?.size === 0) byOwner.delete(session.owner)
    for (const call of session.callsById.values()) call.cancel(new Error('The session ended'))
    session.ended.abort()
    session.server.close().catch(() => {})
    if (session.rememberedMs !== undefined) {
      session.forgotten = note(session, (memory, tenant, idHash) => memory.remove(tenant, idHash))
    }
  }
  /** Never rejects: what is not noted is found to be idle, sooner or later. */
  async function note(
    { id, caller }: HttpSession,
    change: (memory: McpSessionMemory, tenant: TenantId, idHash: string) => Promise<void>,
  ): Promise<void> {
    try {
      const memory = await deps.sessionMemory?.()
      if (memory !== undefined) await change(memory, caller.principal.tenant, sha256Hex(id))
    } catch (error) {
      logger.warn('the use of an MCP session was not noted', { cause: String(error) })
    }
  }
  const restoring = new Map<string, Promise<HttpSession | undefined>>()
  async function restoreNow(
    id: string,
    principal: Principal,
    callerOf: (clientName: string) => ToolCaller,
  ): Promise<HttpSession | undefined> {
    const memory = await deps.sessionMemory?.()
    const known = await memory?.find(principal.tenant, sha256Hex(id))
    if (known === undefined || known.identity !== identityOf(principal)) return undefined
    if (clock.nowMs() - known.usedAtMs > limits.httpSessionIdleMs || !makeSpace(principal)) return undefined
    const initialize = JSON.parse(known.initialize) as { clientInfo: { name: string } }
    const session = newSession(deps, id, callerOf(initialize.clientInfo.name), () => end(session))
    session.isUsed = true
    session.rememberedMs = clock.monotonicMs()
    add(session)
    await session.server.connect(session.transport)
    await replay(session, initialize)
    return session
  }
  function sweep(): void {
    for (const session of sessions.values()) if (isExpired(session)) end(session)
  }
  function makeSpace(principal: Principal): boolean {
    const own = byOwner.get(identityOf(principal))
    if (own !== undefined && own.size >= limits.httpSessionsPerIdentityMax) {
      return endToMakeSpace(firstToEnd(own, isIdle), 'its identity has too many')
    }
    const max = shareFor(principal, limits.httpSessionsMax, limits.httpSessionsReserved)
    if (sessions.size < max) return true
    sweep()
    if (sessions.size < max) return true
    const ownSize = own?.size ?? 0
    const holding = (least: number) => [...byOwner.values()].filter(({ size }) => size >= least)
    const idle = firstOfLargest(holding(ownSize), isIdle)
    return endToMakeSpace(idle ?? firstOfLargest(holding(ownSize + 2), onlyListens), 'all have too many')
  }
  function endToMakeSpace(session: HttpSession | undefined, reason: string): boolean {
    if (session === undefined) {
      logger.debug('an HTTP session was refused: none can be ended', { reason, sessions: sessions.size })
      return false
    }
    const { tenant, actor } = session.caller.principal
    logger.debug('an HTTP session was ended to free capacity', { reason, sessions: sessions.size, tenant, actor })
    end(session)
    return true
  }

  return {
    async open(caller) {
      if (!makeSpace(caller.principal)) return undefined
      const id = random.bytes(SESSION_ID_BYTES).toString('base64url')
      const session = newSession(deps, id, caller, () => end(session))
      add(session)
      await session.server.connect(session.transport)
      return session
    },
    async restore(id, principal, callerOf) {
      const pending = restoring.get(id) ?? restoreNow(id, principal, callerOf).finally(() => restoring.delete(id))
      restoring.set(id, pending)
      await pending
      return this.find(id, principal)
    },
    async remember(session, initialize) {
      const text = JSON.stringify(initialize)
      const memory = text.length > limits.mcpInitializeCharsMax ? undefined : await deps.sessionMemory?.()
      if (memory === undefined) return
      const { id, owner: identity, caller } = session
      const one = { idHash: sha256Hex(id), identity, initialize: text, usedAtMs: clock.nowMs() }
      await memory.save(caller.principal.tenant, one)
      session.rememberedMs = clock.monotonicMs()
    },
    find(id, principal) {
      const session = sessions.get(id)
      if (session === undefined || session.owner !== identityOf(principal)) return undefined
      if (isExpired(session)) {
        end(session)
        return undefined
      }
      session.isUsed = true
      session.lastUsedMs = clock.monotonicMs()
      if (session.rememberedMs !== undefined && session.lastUsedMs - session.rememberedMs > REMEMBER_INTERVAL_MS) {
        session.rememberedMs = session.lastUsedMs
        void note(session, (memory, tenant, idHash) => memory.touch(tenant, idHash, clock.nowMs()))
      }
      return session
    },
    hold(session, res, kind = 'request') {
      if (res.closed) return
      const listening = kind === 'stream' ? 1 : 0
      session.responses++
      session.streams += listening
      res.once('close', () => {
        session.responses--
        session.streams -= listening
        session.lastUsedMs = clock.monotonicMs()
      })
    },
    end,
    all: () => sessions.values(),
    sweep,
    async close() {
      clearInterval(timer)
      for (const stopWatching of watches.values()) stopWatching()
      watches.clear()
      for (const session of sessions.values()) session.ended.abort()
      await Promise.all([...sessions.values()].map((session) => session.server.close().catch(() => {})))
      sessions.clear()
      byOwner.clear()
    },
  }
}

const isIdle = (session: HttpSession): boolean => session.calls.inFlight === 0 && session.responses === 0
const onlyListens = (session: HttpSession): boolean =>
  session.calls.inFlight === 0 && session.responses === session.streams

/** Of those that may end the one never used, or else the one used longest ago. */
function firstToEnd(own: Iterable<HttpSession>, mayEnd: (session: HttpSession) => boolean): HttpSession | undefined {
  let first: HttpSession | undefined
  for (const session of own) {
    if (!mayEnd(session)) continue
    if (first === undefined || endsBefore(session, first)) first = session
  }
  return first
}

function endsBefore(one: HttpSession, other: HttpSession): boolean {
  return one.isUsed === other.isUsed ? one.lastUsedMs < other.lastUsedMs : other.isUsed
}

/** The first to end of the identity with the most sessions, among those that have one which may; the oldest on a tie. */
function firstOfLargest(
  owners: Iterable<ReadonlySet<HttpSession>>,
  mayEnd: (session: HttpSession) => boolean,
): HttpSession | undefined {
  let best: HttpSession | undefined
  let size = 0
  for (const own of owners) {
    if (own.size < size) continue
    const first = firstToEnd(own, mayEnd)
    if (first === undefined) continue
    if (own.size > size || best === undefined || endsBefore(first, best)) best = first
    size = own.size
  }
  return best
}

/** The handshake that the client had with the process before this one, with what it said then. */
async function replay({ id, transport }: HttpSession, initialize: unknown): Promise<void> {
  const protocolVersion = (initialize as { protocolVersion: string }).protocolVersion
  const send = async (message: object, headers: Record<string, string>) => {
    const url = 'http://localhost/mcp'
    const accept = 'application/json, text/event-stream'
    const all = { 'content-type': 'application/json', accept, ...headers }
    const request = new Request(url, { method: 'POST', headers: all })
    const response = await transport.handleRequest(request, { parsedBody: message })
    await response.text()
  }
  await send({ jsonrpc: '2.0', id: 'restored', method: 'initialize', params: initialize }, {})
  const headers = { 'mcp-session-id': id, 'mcp-protocol-version': protocolVersion }
  await send({ jsonrpc: '2.0', method: 'notifications/initialized' }, headers)
}

function newSession(deps: SessionsDeps, id: string, caller: ToolCaller, onEnded: () => void): HttpSession {
  const calls: Counted = { inFlight: 0 }
  const isOfGateway = caller.principal.gateway !== undefined
  const ended = new AbortController()
  const connection: ProtocolConnection = {
    calls,
    isOfGateway,
    session: { id, ended: ended.signal },
    subscriptions: createSubscriptions(ended.signal),
    caller: () => session.caller,
  }
  const session: HttpSession = {
    id,
    owner: identityOf(caller.principal),
    server: createProtocolServer(deps, connection),
    connection,
    transport: new WebStandardStreamableHTTPServerTransport({ sessionIdGenerator: () => id, onsessionclosed: onEnded }),
    ended,
    calls,
    callsById: new Map(),
    latest: caller.principal,
    caller: { ...caller, principal: inSession(caller.principal, id) },
    responses: 0,
    streams: 0,
    rememberedMs: undefined,
    forgotten: undefined,
    isUsed: false,
    lastUsedMs: deps.clock.monotonicMs(),
  }
  return session
}
