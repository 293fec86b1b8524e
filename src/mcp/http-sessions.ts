import type { ServerResponse } from 'node:http'
import { type Server, WebStandardStreamableHTTPServerTransport } from '@modelcontextprotocol/server'
import { limits } from '../contract/limits.ts'
import type { Principal } from '../contract/principal.ts'
import type { Clock } from '../kernel/clock.ts'
import type { Random } from '../kernel/random.ts'
import type { ToolCaller } from '../tools/runtime/tool-host.ts'
import type { ConnectionCalls, PendingCall } from './call-desk.ts'
import { createProtocolServer, type ProtocolDeps } from './protocol-server.ts'
import type { RequestId } from './wire.ts'

/**
 * Sessions of clients that speak a revision before 2026-07-28 over HTTP.
 * 1. A session belongs to the identity that opened it; for any other it does not exist.
 * 2. A session with a request under way or an open stream is busy; any other is idle.
 * 3. One that was idle for `limits.httpSessionIdleMs` is gone; so is one in which nothing came after `initialize` within
 *    `limits.httpSessionUnusedMs`.
 * 4. An identity has at most `limits.httpSessionsPerIdentityMax`; past that its own oldest idle session makes room. All have
 *    at most `limits.httpSessionsMax`; past that the oldest idle one of the identity that holds the most makes room. Of an identity's sessions those that were never used go first. So nobody locks others out by opening many, and
 *    clients that never end theirs lock nobody out.
 */
export type HttpSession = {
  readonly id: string
  readonly owner: string
  readonly server: Server
  readonly transport: WebStandardStreamableHTTPServerTransport
  readonly calls: ConnectionCalls
  readonly callsById: Map<RequestId, PendingCall>
  caller: ToolCaller
  /** Responses under way, streams among them; the calls of the hot path are in `calls` alone. */
  responses: number
  /** Something came after `initialize`. */
  isUsed: boolean
  lastUsedMs: number
}

export type HttpSessions = Readonly<{
  /** `undefined` when there are too many, and none of those that could make room is idle. */
  open(caller: ToolCaller): Promise<HttpSession | undefined>
  /** The session, if it exists and belongs to this principal; counts as use. */
  find(id: string, principal: Principal): HttpSession | undefined
  /** The session is busy until this response is closed. */
  hold(session: HttpSession, res: ServerResponse): void
  end(session: HttpSession): void
  all(): Iterable<HttpSession>
  /** Ends every session that has been idle for too long. */
  sweep(): void
  close(): Promise<void>
}>

type SessionsDeps = ProtocolDeps & Readonly<{ clock: Clock; random: Random }>

const SESSION_ID_BYTES = 24
const SWEEP_INTERVAL_MS = 30_000

export function createHttpSessions(deps: SessionsDeps): HttpSessions {
  const { clock, random, logger } = deps
  const sessions = new Map<string, HttpSession>()
  const byOwner = new Map<string, Set<HttpSession>>()
  const timer = setInterval(sweep, SWEEP_INTERVAL_MS)
  timer.unref()

  function isExpired(session: HttpSession): boolean {
    const idleMs = session.isUsed ? limits.httpSessionIdleMs : limits.httpSessionUnusedMs
    return isIdle(session) && clock.monotonicMs() - session.lastUsedMs > idleMs
  }
  function add(session: HttpSession): void {
    sessions.set(session.id, session)
    const own = byOwner.get(session.owner)
    if (own === undefined) byOwner.set(session.owner, new Set([session]))
    else own.add(session)
  }
  function end(session: HttpSession): void {
    if (!sessions.delete(session.id)) return
    const own = byOwner.get(session.owner)
    own?.delete(session)
    if (own?.size === 0) byOwner.delete(session.owner)
    for (const call of session.callsById.values()) call.cancel(new Error('The session ended'))
    session.server.close().catch(() => {})
  }
  function sweep(): void {
    for (const session of sessions.values()) if (isExpired(session)) end(session)
  }
  function makeRoom(owner: string): boolean {
    const own = byOwner.get(owner)
    if (own !== undefined && own.size >= limits.httpSessionsPerIdentityMax) {
      return endToMakeRoom(firstToEnd(own), 'its identity has too many')
    }
    if (sessions.size < limits.httpSessionsMax) return true
    sweep()
    return (
      sessions.size < limits.httpSessionsMax || endToMakeRoom(firstOfLargest(byOwner.values()), 'all have too many')
    )
  }
  function endToMakeRoom(session: HttpSession | undefined, reason: string): boolean {
    if (session === undefined) {
      logger.debug('an HTTP session was refused: none is idle', { reason, sessions: sessions.size })
      return false
    }
    const { tenant, actor } = session.caller.principal
    logger.debug('an idle HTTP session was ended to make room', { reason, sessions: sessions.size, tenant, actor })
    end(session)
    return true
  }

  return {
    async open(caller) {
      if (!makeRoom(identityOf(caller.principal))) return undefined
      const id = random.bytes(SESSION_ID_BYTES).toString('base64url')
      const session = newSession(deps, id, caller, () => end(session))
      add(session)
      await session.server.connect(session.transport)
      return session
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
      return session
    },
    hold(session, res) {
      if (res.closed) return
      session.responses++
      res.once('close', () => {
        session.responses--
        session.lastUsedMs = clock.monotonicMs()
      })
    },
    end,
    all: () => sessions.values(),
    sweep,
    async close() {
      clearInterval(timer)
      await Promise.all([...sessions.values()].map((session) => session.server.close().catch(() => {})))
      sessions.clear()
      byOwner.clear()
    },
  }
}

const isIdle = (session: HttpSession): boolean => session.calls.inFlight === 0 && session.responses === 0

/** Of the idle ones the one never used, or else the one used longest ago. */
function firstToEnd(own: Iterable<HttpSession>): HttpSession | undefined {
  let first: HttpSession | undefined
  for (const session of own) {
    if (!isIdle(session)) continue
    if (first === undefined || endsBefore(session, first)) first = session
  }
  return first
}

function endsBefore(one: HttpSession, other: HttpSession): boolean {
  return one.isUsed === other.isUsed ? one.lastUsedMs < other.lastUsedMs : other.isUsed
}

/** The first to end of the identity with the most sessions, among those that have an idle one; the oldest on a tie. */
function firstOfLargest(owners: Iterable<ReadonlySet<HttpSession>>): HttpSession | undefined {
  let best: HttpSession | undefined
  let size = 0
  for (const own of owners) {
    if (own.size < size) continue
    const first = firstToEnd(own)
    if (first === undefined) continue
    if (own.size > size || best === undefined || endsBefore(first, best)) best = first
    size = own.size
  }
  return best
}

function newSession(deps: SessionsDeps, id: string, caller: ToolCaller, onEnded: () => void): HttpSession {
  const calls: ConnectionCalls = { inFlight: 0 }
  const session: HttpSession = {
    id,
    owner: identityOf(caller.principal),
    server: createProtocolServer(deps, { calls, caller: () => session.caller }),
    transport: new WebStandardStreamableHTTPServerTransport({ sessionIdGenerator: () => id, onsessionclosed: onEnded }),
    calls,
    callsById: new Map(),
    caller,
    responses: 0,
    isUsed: false,
    lastUsedMs: deps.clock.monotonicMs(),
  }
  return session
}

const identities = new WeakMap<Principal, string>()

/** Who somebody is, apart from what they may do at the moment. */
export function identityOf(principal: Principal): string {
  let identity = identities.get(principal)
  if (identity === undefined) {
    const { tenant, kind, actor, keyId, user, agent } = principal
    identity = JSON.stringify([tenant, kind, actor, keyId ?? 0, user ?? 0, agent ?? 0])
    identities.set(principal, identity)
  }
  return identity
}
