import type { Principal, TenantId } from '../../contract/principal.ts'
import type { SecurityContext } from '../../contract/security-context.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'

/**
 * An external caller that proved its identity, and the key that signs its later calls. `identity` is the id of its API key, or
 * `owner`. The caller's own claims (agent, execution, workload) are recorded, never trusted. Neither the token nor anything that
 * makes one is stored.
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
  /** Returns whether this call did it. */
  revokeSession(tx: WriteTx, tenant: TenantId, id: string, atMs: number): Promise<boolean>
  /** Records a signed message; false if it was recorded already. */
  takeMessage(tx: WriteTx, tenant: TenantId, digest: string, retainedUntilMs: number): Promise<boolean>
  /** Removes expired messages, and sessions that ended long ago. */
  forgetEnded(
    tx: WriteTx,
    tenant: TenantId,
    before: Readonly<{ messagesRetainedUntilMs: number; sessionsExpiredMs: number }>,
  ): Promise<void>
}>

/** The security contexts that there are, by name. */
export type ContextDirectory = Readonly<{ find(name: string): SecurityContext | undefined }>

/** An API key's principal while it is live. */
export type KeyDirectory = Readonly<{
  livePrincipal(
    tenant: TenantId,
    keyId: string,
    nowMs: number,
  ): Promise<Readonly<{ principal: Principal; expiresAtMs: number | null }> | undefined>
}>
