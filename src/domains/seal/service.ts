import type { Call } from '../../contract/call.ts'
import type { Database } from '../../contract/database.ts'
import { limits } from '../../contract/limits.ts'
import { administers } from '../../contract/permissions.ts'
import { localOwner, type Principal, type TenantId } from '../../contract/principal.ts'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import { sha256Hex } from '../../kernel/hash.ts'
import { listAtMost } from '../../kernel/list-at-most.ts'
import { type Random, randomId } from '../../kernel/random.ts'
import { type Envelope, type EnvelopeCall, isSignedBy, messageDigest, readCall, signedText } from './envelope.ts'
import type { ContextDirectory, KeyDirectory, SealSession, SealStore } from './ports.ts'
import { readPublicKey } from './public-key.ts'
import {
  chooseContext,
  identityOf,
  inactive,
  isOwnerIdentity,
  mayManage,
  noSuchSession,
  requireIdentity,
  requireOwnTenant,
  type SealSessionStatus,
  sessionPrincipal,
  sessionStatus,
  unauthenticated,
} from './rules.ts'
import type { TokenSigner } from './token.ts'

type Reading = Pick<Call, 'principal' | 'nowMs' | 'read' | 'readsFrom'>
type Writing = Pick<Call, 'principal' | 'nowMs' | 'read' | 'write' | 'record' | 'readsFrom' | 'writesTo'>

export type AttestInput = Readonly<{
  public_key: string
  security_context?: string | undefined
  zaru_tier?: string | undefined
  agent_id?: string | undefined
  execution_id?: string | undefined
  workload_id?: string | undefined
  task_summary?: string | undefined
  tenant_id?: string | undefined
}>

type SessionView = Readonly<{
  session_id: string
  status: SealSessionStatus
  security_context: string
  identity: string
  agent_id: string | null
  execution_id: string | null
  task_summary: string | null
  created_at: string
  expires_at: string
  revoked_at: string | null
}>

/** A verified signed call, and its principal. */
export type OpenedCall = Readonly<{ principal: Principal; call: EnvelopeCall }>

export type SealService = Readonly<{
  attest(
    call: Writing,
    input: AttestInput,
  ): Promise<Readonly<{ session_id: string; security_token: string; security_context: string; expires_at: string }>>
  /** Newest first: the caller's own, or all of the tenant for an administrator. */
  listSessions(call: Reading): Promise<Readonly<{ sessions: readonly SessionView[]; truncated: boolean }>>
  /** Revoking again changes nothing. */
  revokeSession(call: Writing, sessionId: string): Promise<SessionView>
  /**
   * Verifies a signed call and durably records it, so that it cannot be replayed. In this order: the token, the session, the
   * time, the signature, the call's shape, replay. The pipeline checks what the session may do, as for every call.
   */
  open(envelope: Envelope): Promise<OpenedCall>
  /** The principal of a session with this context, without opening one. */
  preview(principal: Principal, context: string | undefined): Principal
}>

type SealDeps = Readonly<{
  store: SealStore
  database: Pick<Database, 'read' | 'write'>
  keys: KeyDirectory
  contexts: ContextDirectory
  signer: TokenSigner
  clock: Clock
  random: Random
  /** Called within the transaction that revokes a session. */
  noteRevoked?(tenant: TenantId, sessionId: string): void
  /** Called for what is refused, or removed, because it has expired. */
  noteExpired?(atMs: number): void
}>

export function createSealService(deps: SealDeps): SealService {
  const { store, database, contexts, clock } = deps
  const sweptAtMs = new Map<TenantId, number>()

  /** The present identity of a session, or undefined: a revoked key ends its sessions. */
  async function identityOfSession(session: SealSession, nowMs: number): Promise<Principal | undefined> {
    if (isOwnerIdentity(session.identity)) return localOwner.tenant === session.tenant ? localOwner : undefined
    return (await deps.keys.livePrincipal(session.tenant, session.identity, nowMs))?.principal
  }

  async function sessionOfToken(token: string, nowMs: number): Promise<SealSession> {
    const claims = deps.signer.read(token)
    const session =
      claims === undefined ? undefined : await store.findSession(database.read, claims.tenant, claims.sessionId)
    if (session === undefined || session.tokenHash !== sha256Hex(token)) {
      throw unauthenticated('SIGNATURE_INVALID', 'The security token was not issued by this server. Attest again.')
    }
    const status = sessionStatus(session, nowMs)
    if (status === 'expired') {
      deps.noteExpired?.(session.expiresAtMs)
      throw unauthenticated('SESSION_EXPIRED', 'The session has expired. Attest again.')
    }
    if (status === 'revoked') throw inactive()
    return session
  }

  async function takeOnce(session: SealSession, text: string, timestampSeconds: number, nowMs: number): Promise<void> {
    const { tenant } = session
    const isSweeping = nowMs - (sweptAtMs.get(tenant) ?? 0) > limits.sealSweepMs
    if (isSweeping) deps.noteExpired?.(nowMs)
    const isTaken = await database.write(tenant, async (tx) => {
      if (isSweeping) {
        sweptAtMs.set(tenant, nowMs)
        await store.forgetEnded(tx, tenant, {
          messagesRetainedUntilMs: nowMs,
          sessionsExpiredMs: nowMs - limits.sealEndedSessionRetentionMs,
        })
      }
      const retainedUntilMs = timestampSeconds * 1000 + limits.sealClockSkewMs + limits.sealMessageRetentionMs
      return await store.takeMessage(tx, tenant, messageDigest(text), retainedUntilMs)
    })
    if (!isTaken) {
      throw unauthenticated('ENVELOPE_REPLAYED', 'This signed call was already used. Sign a new one with another id.')
    }
  }

  /** Revokes the oldest, so that one more session fits. */
  async function revokeOldest(call: Writing, identity: string): Promise<void> {
    const { tenant } = call.principal
    const live = await store.liveSessions(call.read, tenant, identity, call.nowMs)
    for (const { id } of live.slice(0, Math.max(0, live.length + 1 - limits.sealSessionsPerIdentityMax))) {
      await store.revokeSession(call.write, tenant, id, call.nowMs)
      call.record({ kind: 'seal_session_revoked', body: { session_id: id } })
      deps.noteRevoked?.(tenant, id)
    }
  }

  return {
    async attest(call, input) {
      const { principal, nowMs } = call
      const identity = requireIdentity(principal)
      requireOwnTenant(principal, input.tenant_id)
      const context = chooseContext(principal, input, contexts)
      const publicKey = readPublicKey(input.public_key)
      const key = isOwnerIdentity(identity)
        ? undefined
        : await deps.keys.livePrincipal(principal.tenant, identity, nowMs)
      if (!isOwnerIdentity(identity) && key === undefined) throw inactive()
      await revokeOldest(call, identity)
      const draft: SealSession = {
        tenant: principal.tenant,
        id: randomId(deps.random, 'seal'),
        identity,
        tokenHash: '',
        publicKey: publicKey.toString('base64'),
        context: context.name,
        agentId: input.agent_id ?? null,
        executionId: input.execution_id ?? null,
        workloadId: input.workload_id ?? null,
        taskSummary: input.task_summary ?? null,
        createdAtMs: nowMs,
        createdBy: principal.actor,
        expiresAtMs: Math.min(nowMs + limits.sealSessionMs, key?.expiresAtMs ?? Number.POSITIVE_INFINITY),
        revokedAtMs: null,
      }
      const token = deps.signer.issue(draft)
      const session = { ...draft, tokenHash: sha256Hex(token) }
      if (hasClaims(session)) await call.writesTo?.(`seal_session:${session.id}`)
      await store.insertSession(call.write, principal.tenant, session)
      call.record({ kind: 'seal_session_created', body: { ...viewOf(session, nowMs), public_key: session.publicKey } })
      return {
        session_id: session.id,
        security_token: token,
        security_context: context.name,
        expires_at: isoTime(session.expiresAtMs),
      }
    },

    async listSessions(call) {
      const { principal, nowMs, read } = call
      const identity = identityOf(principal)
      const seesAll = administers(principal, 'seal')
      if (identity === undefined && !seesAll) return { sessions: [], truncated: false }
      const filter = seesAll || identity === undefined ? {} : { identity }
      const { rows, truncated } = await listAtMost(limits.sealSessionListMax, (limit) =>
        store.listSessions(read, principal.tenant, { ...filter, limit }),
      )
      for (const session of rows) if (hasClaims(session)) call.readsFrom?.(`seal_session:${session.id}`)
      return { sessions: rows.map((session) => viewOf(session, nowMs)), truncated }
    },

    async revokeSession(call, sessionId) {
      const { principal, nowMs, read, write } = call
      const session = await store.findSession(read, principal.tenant, sessionId)
      if (session === undefined || !mayManage(principal, session)) throw noSuchSession(sessionId)
      const isRevokedNow = await store.revokeSession(write, principal.tenant, sessionId, nowMs)
      if (isRevokedNow) {
        call.record({ kind: 'seal_session_revoked', body: { session_id: sessionId } })
        deps.noteRevoked?.(principal.tenant, sessionId)
      }
      if (hasClaims(session)) call.readsFrom?.(`seal_session:${session.id}`)
      return viewOf(isRevokedNow ? { ...session, revokedAtMs: nowMs } : session, nowMs)
    },

    async open(envelope) {
      const nowMs = clock.nowMs()
      const session = await sessionOfToken(envelope.token, nowMs)
      const identity = await identityOfSession(session, nowMs)
      const context = contexts.find(session.context)
      if (identity === undefined || context === undefined) throw inactive()
      const sentMs = envelope.timestampSeconds * 1000
      if (Math.abs(nowMs - sentMs) > limits.sealClockSkewMs) {
        if (sentMs < nowMs) deps.noteExpired?.(sentMs + limits.sealClockSkewMs)
        throw unauthenticated('ENVELOPE_EXPIRED', `timestamp: must be within 30 s of ${isoTime(nowMs)}.`)
      }
      const text = signedText(envelope)
      if (!isSignedBy(text, envelope.signature, Buffer.from(session.publicKey, 'base64'))) {
        throw unauthenticated('SIGNATURE_INVALID', 'signature: does not match the session and these bytes.')
      }
      const call = readCall(envelope.payload)
      await takeOnce(session, text, envelope.timestampSeconds, nowMs)
      return { principal: sessionPrincipal(identity, context, session.id), call }
    },

    preview(principal, context) {
      const chosen = chooseContext(principal, { security_context: context }, contexts)
      return sessionPrincipal(principal, chosen)
    },
  }
}

/** Texts in the words of the caller that attested. */
const hasClaims = ({ agentId, executionId, workloadId, taskSummary }: SealSession): boolean =>
  [agentId, executionId, workloadId, taskSummary].some((claim) => claim !== null)

const viewOf = (session: SealSession, nowMs: number): SessionView => ({
  session_id: session.id,
  status: sessionStatus(session, nowMs),
  security_context: session.context,
  identity: session.identity,
  agent_id: session.agentId,
  execution_id: session.executionId,
  task_summary: session.taskSummary,
  created_at: isoTime(session.createdAtMs),
  expires_at: isoTime(session.expiresAtMs),
  revoked_at: session.revokedAtMs === null ? null : isoTime(session.revokedAtMs),
})
