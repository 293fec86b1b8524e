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
 * 2. There are at most `limits.httpSessionsMax`; one that was idle for `limits.httpSessionIdleMs` is gone.
 * 3. A session with a call under way or an open stream is not idle.
 */
export type HttpSession = {
  readonly id: string
  readonly owner: string
  readonly server: Server
  readonly transport: WebStandardStreamableHTTPServerTransport
  readonly calls: ConnectionCalls
  readonly callsById: Map<RequestId, PendingCall>
  caller: ToolCaller
  streams: number
  lastUsedMs: number
}

export type HttpSessions = Readonly<{
  /** `undefined` when there are too many. */
  open(caller: ToolCaller): Promise<HttpSession | undefined>
  /** The session, if it exists and belongs to this principal; counts as use. */
  find(id: string, principal: Principal): HttpSession | undefined
  end(session: HttpSession): void
  all(): Iterable<HttpSession>
  /** Ends every session that has been idle for too long. */
  sweep(): void
  close(): Promise<void>
}>

const SESSION_ID_BYTES = 24
const SWEEP_INTERVAL_MS = 60_000

export function createHttpSessions(deps: ProtocolDeps & { clock: Clock; random: Random }): HttpSessions {
  const { clock, random } = deps
  const sessions = new Map<string, HttpSession>()
  const timer = setInterval(sweep, SWEEP_INTERVAL_MS)
  timer.unref()

  function isExpired(session: HttpSession): boolean {
    if (session.calls.inFlight > 0 || session.streams > 0) return false
    return clock.monotonicMs() - session.lastUsedMs > limits.httpSessionIdleMs
  }
  function end(session: HttpSession): void {
    sessions.delete(session.id)
    for (const call of session.callsById.values()) call.cancel(new Error('The session ended'))
    session.server.close().catch(() => {})
  }
  function sweep(): void {
    for (const session of sessions.values()) if (isExpired(session)) end(session)
  }

  return {
    async open(caller) {
      if (sessions.size >= limits.httpSessionsMax) sweep()
      if (sessions.size >= limits.httpSessionsMax) return undefined
      const id = random.bytes(SESSION_ID_BYTES).toString('base64url')
      const session = newSession(deps, id, caller, () => end(session))
      sessions.set(id, session)
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
      session.lastUsedMs = clock.monotonicMs()
      return session
    },
    end,
    all: () => sessions.values(),
    sweep,
    async close() {
      clearInterval(timer)
      await Promise.all([...sessions.values()].map((session) => session.server.close().catch(() => {})))
      sessions.clear()
    },
  }
}

function newSession(
  deps: ProtocolDeps & { clock: Clock },
  id: string,
  caller: ToolCaller,
  onEnded: () => void,
): HttpSession {
  const calls: ConnectionCalls = { inFlight: 0 }
  const session: HttpSession = {
    id,
    owner: identityOf(caller.principal),
    server: createProtocolServer(deps, { calls, caller: () => session.caller }),
    transport: new WebStandardStreamableHTTPServerTransport({ sessionIdGenerator: () => id, onsessionclosed: onEnded }),
    calls,
    callsById: new Map(),
    caller,
    streams: 0,
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
