import type { ServerResponse } from 'node:http'
import { type Server, WebStandardStreamableHTTPServerTransport } from '@modelcontextprotocol/server'
import { limits } from '../contract/limits.ts'
import type { McpSessionMemory } from '../contract/mcp-sessions.ts'
import { type Principal, shareFor, type TenantId } from '../contract/principal.ts'
import type { Clock } from '../kernel/clock.ts'
import { sha256Hex } from '../kernel/hash.ts'
import type { Random } from '../kernel/random.ts'
import { createSingleFlight } from '../kernel/single-flight.ts'
import { SlotSet } from '../kernel/slot-set.ts'
import type { Counted, InFlightCall } from '../tools/runtime/in-flight-calls.ts'
import type { Presence } from '../tools/runtime/presence.ts'
import type { ToolCaller } from '../tools/runtime/tool-host.ts'
import type { AnswerForwarding } from './forward-answers.ts'
import type { RequestId } from './json-rpc.ts'
import { createProtocolServer, type ProtocolConnection, type ProtocolDeps } from './protocol-server.ts'
import { nameQuestions } from './question-ids.ts'
import { createSessionChoices, type SessionChoices } from './session-choices.ts'
import { identityOf, inSession, isOf } from './session-identity.ts'
import { receiveReplies } from './session-replies.ts'
import { firstOfLargest, firstToEnd, isIdle, onlyListens } from './sessions-to-end.ts'
import { createSubscriptions } from './subscriptions.ts'

/**
 * Sessions of clients that use a revision before 2026-07-28 over HTTP.
 * 1. A session belongs to the identity that opened it; for any other it does not exist.
 * 2. A session with a request in progress or an open stream is busy; any other is idle.
 * 3. A session ends after `limits.httpSessionIdleMs` without use, and after `limits.httpSessionUnusedMs` if nothing came after
 *    `initialize`.
 * 4. An identity has at most `limits.httpSessionsPerIdentityMax`; beyond that its own oldest idle session ends. All have at most
 *    `limits.httpSessionsMax`; beyond that the oldest idle session of the identity with the most sessions ends, or else its
 *    oldest that only listens. That happens only in favour of an identity with fewer sessions. Sessions that were never used end
 *    first. So nobody locks others out by opening many sessions or by never ending them.
 * 5. The shares of the local owner and of operators of the installation are reserved.
 * 6. The sessions of a key end with it.
 * 7. A session outlives the process: its client continues it after a restart, unless it was idle for too long.
 * 8. If several processes share a store, a session that its client or a revocation ends, ends at all of them. A process that drops
 *    one because it is idle there, or to make space, leaves it to the others.
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
  /** Calls that the SDK does not see. */
  readonly callsUnderWay: SlotSet<Readonly<{ id: RequestId; call: InFlightCall }>>
  /** What the ids of our questions begin with, where other processes may ask the same client. */
  readonly questionName: string | undefined
  /** The principal of the newest request. */
  latest: Principal
  caller: ToolCaller
  /** Responses in progress, and those that only listen; the calls of the hot path are in `calls` alone. */
  responses: number
  streams: number
  /** When its use was last recorded on disk; undefined for a session that ends with the process, because it could not be stored. */
  rememberedMs: number | undefined
  /** What its client chose, as it is stored. */
  choices: string | undefined
  /** Resolves when an ended session has been removed from disk. */
  forgotten: Promise<void> | undefined
  /** Something came after `initialize`. */
  isUsed: boolean
  lastUsedMs: number
}

export type HttpSessions = Readonly<{
  /** `undefined` if there are too many, and none that could end is idle. */
  open(caller: ToolCaller): Promise<HttpSession | undefined>
  /** The session, if it exists and belongs to this principal; counts as use. */
  find(id: string, principal: Principal): HttpSession | undefined
  /**
   * A session from before a restart. Undefined if there is none, if it is another principal's, or if it was idle for
   * too long.
   */
  restore(
    id: string,
    principal: Principal,
    callerOf: (clientName: string) => ToolCaller,
  ): Promise<HttpSession | undefined>
  /**
   * From here on the session outlives the process. If it cannot be stored, this rejects for one at a gateway; one at the main
   * address ends with the process.
   */
  remember(session: HttpSession, initialize: unknown): Promise<void>
  /** The session is busy until this response is closed. */
  hold(session: HttpSession, res: ServerResponse, kind?: 'request' | 'stream'): void
  /** Ends it for its client, at every process. */
  end(session: HttpSession): void
  /** Other processes serve its client too. */
  isShared(session: HttpSession): boolean
  /** Whether another process has ended it; then it ends here too. Rejects if the store cannot be read. */
  isEndedElsewhere(session: HttpSession): Promise<boolean>
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
    passing: AnswerForwarding | undefined
  }>

type Change = (memory: McpSessionMemory, tenant: TenantId, idHash: string) => Promise<void>

const SESSION_ID_BYTES = 24
const SWEEP_INTERVAL_MS = 30_000
/** After a crash a session in use may count as idle by this much too early. */
const REMEMBER_INTERVAL_MS = 60_000
const OPEN_INTERVAL_MS = 300_000
const CHOICES_INTERVAL_MS = 1_000

export function createHttpSessions(deps: SessionsDeps): HttpSessions {
  const { clock, random, logger } = deps
  const sessions = new Map<string, HttpSession>()
  const byOwner = new Map<string, Set<HttpSession>>()
  const watches = new Map<HttpSession, () => void>()
  const timer = setInterval(sweep, SWEEP_INTERVAL_MS)
  timer.unref()
  const choices = createSessionChoices(deps)
  const refresh = (): void => {
    const remembered = [...sessions.values()].filter(({ rememberedMs }) => rememberedMs !== undefined)
    if (remembered.length === 0) return
    void choices.refresh(remembered)
    void endThoseEndedElsewhere(remembered)
  }
  const refreshing = deps.passing && setInterval(refresh, CHOICES_INTERVAL_MS)
  refreshing?.unref()
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
    if (!drop(session) || session.rememberedMs === undefined) return
    session.forgotten = note(session, (memory, tenant, idHash) => memory.end(tenant, idHash, clock.nowMs()))
  }
  /** Another process may use a session that is idle here. */
  const endIdle = deps.passing === undefined ? end : (session: HttpSession) => void drop(session)
  /** Returns whether it was there. */
  function drop(session: HttpSession): boolean {
    if (!sessions.delete(session.id)) return false
    watches.get(session)?.()
    watches.delete(session)
    const own = byOwner.get(session.owner)
    own?.delete(session)
    if (own?.size === 0) byOwner.delete(session.owner)
    for (const { call } of session.callsUnderWay) call.cancel(new Error('The session ended'))
    session.ended.abort()
    session.server.close().catch(() => {})
    return true
  }
  /** Never rejects. */
  async function endThoseEndedElsewhere(remembered: readonly HttpSession[]): Promise<void> {
    const byTenant = Map.groupBy(remembered, ({ caller }): TenantId => caller.principal.tenant)
    for (const [tenant, own] of byTenant) {
      try {
        const ended = await (await deps.sessionMemory?.())?.endedSince(tenant, clock.nowMs() - limits.mcpSessionEndedMs)
        if (ended === undefined || ended.size === 0) continue
        for (const session of own) if (ended.has(sha256Hex(session.id))) drop(session)
      } catch (error) {
        logger.warn('ends of MCP sessions at other processes could not be read', { cause: String(error) })
      }
    }
  }
  async function change({ id, caller }: HttpSession, work: Change): Promise<void> {
    const memory = await deps.sessionMemory?.()
    if (memory !== undefined) await work(memory, caller.principal.tenant, sha256Hex(id))
  }
  /** Never rejects: an unrecorded session ends as idle sooner or later. */
  async function note(session: HttpSession, work: Change): Promise<void> {
    try {
      await change(session, work)
    } catch (error) {
      logger.warn('an MCP session could not be stored', { cause: String(error) })
    }
  }
  const restorations = createSingleFlight<HttpSession | undefined>()
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
    const session = newSession(deps, choices, id, callerOf(initialize.clientInfo.name), () => end(session))
    session.isUsed = true
    session.rememberedMs = clock.monotonicMs()
    add(session)
    await session.server.connect(session.transport)
    await replay(session, initialize)
    choices.apply(session, known.choices)
    return session
  }
  function sweep(): void {
    for (const session of sessions.values()) {
      if (isExpired(session)) endIdle(session)
      // A stream that is open is a use, however quiet it is.
      else if (!isIdle(session)) noteUse(session, OPEN_INTERVAL_MS)
    }
  }
  function noteUse(session: HttpSession, intervalMs: number): void {
    const nowMs = clock.monotonicMs()
    if (session.rememberedMs === undefined || nowMs - session.rememberedMs <= intervalMs) return
    session.rememberedMs = nowMs
    void note(session, (memory, tenant, idHash) => memory.touch(tenant, idHash, clock.nowMs()))
  }
  function makeSpace(principal: Principal): boolean {
    const own = byOwner.get(identityOf(principal))
    if (own !== undefined && own.size >= limits.httpSessionsPerIdentityMax) {
      return endToMakeSpace(firstToEnd(own, isIdle), 'too many sessions of this identity')
    }
    const max = shareFor(principal, limits.httpSessionsMax, limits.httpSessionsReserved)
    if (sessions.size < max) return true
    sweep()
    if (sessions.size < max) return true
    const ownSize = own?.size ?? 0
    const holding = (least: number) => [...byOwner.values()].filter(({ size }) => size >= least)
    const idle = firstOfLargest(holding(ownSize), isIdle)
    return endToMakeSpace(idle ?? firstOfLargest(holding(ownSize + 2), onlyListens), 'too many sessions in total')
  }
  function endToMakeSpace(session: HttpSession | undefined, reason: string): boolean {
    if (session === undefined) {
      logger.debug('HTTP session refused: no other session can be ended', { reason, sessions: sessions.size })
      return false
    }
    const { tenant, actor } = session.caller.principal
    logger.debug('HTTP session ended to free capacity', { reason, sessions: sessions.size, tenant, actor })
    endIdle(session)
    return true
  }

  return {
    async open(caller) {
      if (!makeSpace(caller.principal)) return undefined
      const id = random.bytes(SESSION_ID_BYTES).toString('base64url')
      const session = newSession(deps, choices, id, caller, () => end(session))
      add(session)
      await session.server.connect(session.transport)
      return session
    },
    async restore(id, principal, callerOf) {
      await restorations.run(id, () => restoreNow(id, principal, callerOf))
      return this.find(id, principal)
    },
    async remember(session, initialize) {
      const text = JSON.stringify(initialize)
      if (text.length > limits.mcpInitializeCharsMax) return
      const save = async (memory: McpSessionMemory, tenant: TenantId, idHash: string): Promise<void> => {
        await memory.save(tenant, { idHash, identity: session.owner, initialize: text, usedAtMs: clock.nowMs() })
        session.rememberedMs = clock.monotonicMs()
      }
      await (session.caller.principal.gateway === undefined ? note : change)(session, save)
    },
    find(id, principal) {
      const session = sessions.get(id)
      if (session === undefined || session.owner !== identityOf(principal)) return undefined
      if (isExpired(session)) {
        endIdle(session)
        return undefined
      }
      session.isUsed = true
      session.lastUsedMs = clock.monotonicMs()
      noteUse(session, REMEMBER_INTERVAL_MS)
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
    isShared: ({ rememberedMs }) => deps.passing !== undefined && rememberedMs !== undefined,
    async isEndedElsewhere(session) {
      const memory = await deps.sessionMemory?.()
      if (memory === undefined) return false
      if ((await memory.find(session.caller.principal.tenant, sha256Hex(session.id))) !== undefined) return false
      drop(session)
      return true
    },
    all: () => sessions.values(),
    sweep,
    async close() {
      clearInterval(timer)
      clearInterval(refreshing)
      for (const stopWatching of watches.values()) stopWatching()
      watches.clear()
      for (const session of sessions.values()) session.ended.abort()
      await Promise.all([...sessions.values()].map((session) => session.server.close().catch(() => {})))
      sessions.clear()
      byOwner.clear()
    },
  }
}

/** Replays the client's handshake with the previous process. */
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

function newSession(
  deps: SessionsDeps,
  choices: SessionChoices,
  id: string,
  caller: ToolCaller,
  onEnded: () => void,
): HttpSession {
  const calls: Counted = { inFlight: 0 }
  const ended = new AbortController()
  const transport = new WebStandardStreamableHTTPServerTransport({
    sessionIdGenerator: () => id,
    onsessionclosed: onEnded,
  })
  const questionName = deps.passing ? `${deps.random.bytes(6).toString('base64url')}.` : undefined
  if (questionName !== undefined) nameQuestions(transport, questionName)
  const asks = questionName === undefined ? undefined : receiveReplies(deps, () => session)
  const connection: ProtocolConnection = {
    calls,
    isOfGateway: caller.principal.gateway !== undefined,
    session: { id, ended: ended.signal, ...(asks && { asks }) },
    subscriptions: createSubscriptions(ended.signal),
    choose: (change) => choices.choose(session, change),
    caller: () => session.caller,
  }
  const session: HttpSession = {
    id,
    owner: identityOf(caller.principal),
    server: createProtocolServer(deps, connection),
    connection,
    transport,
    ended,
    calls,
    callsUnderWay: new SlotSet(),
    questionName,
    latest: caller.principal,
    caller: { ...caller, principal: inSession(caller.principal, id) },
    responses: 0,
    streams: 0,
    rememberedMs: undefined,
    choices: undefined,
    forgotten: undefined,
    isUsed: false,
    lastUsedMs: deps.clock.monotonicMs(),
  }
  return session
}
