import type { Principal, TenantId } from '../../contract/principal.ts'
import type { SecurityContext } from '../../contract/security-context.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'

/**
 * A caller from outside that proved who it is, and the key that signs its calls from then on. `identity` is the id of the
 * API key that it came with, or `owner`. What the caller said about itself (agent, execution, workload) is told, never
 * believed. Neither the token nor anything that makes one is stored.
 */
export type SealSession = Readonly<{
  tenant: TenantId
  id: string
  identity: string
  tokenHash: string
  /** The 32 bytes of its Ed25519 key, in base64. */
  publicKey: string
  context: string
  agentId: string | null
  executionId: string | null
  workloadId: string | null
  taskSummary: string | null
  createdAtMs: number
  createdBy: string
  expiresAtMs: number
  revokedAtMs: number | null
}>

export type SealStore = Readonly<{
  insertSession(tx: WriteTx, tenant: TenantId, session: SealSession): Promise<void>
  findSession(tx: ReadTx, tenant: TenantId, id: string): Promise<SealSession | undefined>
  /** Newest first, ended ones included; of one identity if given. */
  listSessions(
    tx: ReadTx,
    tenant: TenantId,
    filter: Readonly<{ identity?: string; limit: number }>,
  ): Promise<SealSession[]>
  /** Neither expired nor revoked at `nowMs`, oldest first. */
  liveSessions(tx: ReadTx, tenant: TenantId, identity: string, nowMs: number): Promise<SealSession[]>
  /** Answers whether this call did it. */
  revokeSession(tx: WriteTx, tenant: TenantId, id: string, atMs: number): Promise<boolean>
  /** Notes that a signed message was taken; false when it is noted already. */
  takeMessage(tx: WriteTx, tenant: TenantId, digest: string, retainedUntilMs: number): Promise<boolean>
  /** Forgets messages that are kept no longer, and sessions that ended long ago. */
  forgetEnded(
    tx: WriteTx,
    tenant: TenantId,
    before: Readonly<{ messagesRetainedUntilMs: number; sessionsExpiredMs: number }>,
  ): Promise<void>
}>

/** The security contexts that there are, by name. */
export type ContextDirectory = Readonly<{ find(name: string): SecurityContext | undefined }>

/** What has become of an API key: its principal while it is live. */
export type KeyDirectory = Readonly<{
  livePrincipal(
    tenant: TenantId,
    keyId: string,
    nowMs: number,
  ): Promise<Readonly<{ principal: Principal; expiresAtMs: number | null }> | undefined>
}>
