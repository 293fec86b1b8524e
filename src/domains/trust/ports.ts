import type { TenantId } from '../../contract/principal.ts'
import type { ContextKey, TaintCause } from '../../contract/trust.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'

export type TaintedContext = Readonly<{
  tenant: TenantId
  context: ContextKey
  cause: TaintCause
  sinceMs: number
  /** With which a program acts in it; null for what is no program's. */
  credential: string | null
  /** When it was last noted that it is in use. */
  seenMs: number
}>

/**
 * Contexts that were in use since `unusedMs`, sessions used since `sessionMs`, and keys that expired since `keyMs` may come back. Sessions over
 * standard input that started before `lineMs` are untrusted by their name.
 */
export type PrunedBefore = Readonly<{ unusedMs: number; sessionMs: number; keyMs: number; lineMs: number }>

/** Every method answers for one tenant only, but for `tenants`. */
export type TrustStore = Readonly<{
  /** Where the context is tainted already, the first cause stays, and it is noted that it is in use. */
  insertTaint(tx: WriteTx, tenant: TenantId, tainted: TaintedContext): Promise<void>
  /** Answers whether it was there. */
  deleteTaint(tx: WriteTx, tenant: TenantId, context: ContextKey): Promise<boolean>
  findTaint(tx: ReadTx | WriteTx, tenant: TenantId, context: ContextKey): Promise<TaintedContext | undefined>
  /** The newest of the credential that was in use since the time. */
  findOfCredential(
    tx: ReadTx | WriteTx,
    tenant: TenantId,
    credential: string,
    seenFromMs: number,
  ): Promise<TaintedContext | undefined>
  /**
   * Removes at most `limit` contexts that cannot come back, and returns how many: workspaces and runs that are gone, connections and callers of
   * keys that are, and sessions that have ended. Of a credential that still works, the newest stays: what it has read counts for what it
   * may govern. So does the context of an approval.
   */
  pruneTaints(tx: WriteTx, tenant: TenantId, before: PrunedBefore, limit: number): Promise<number>
  /** The newest first. */
  listTaints(tx: ReadTx, tenant: TenantId, limit: number): Promise<TaintedContext[]>
  /** Those that have a tainted context. */
  tenants(tx: ReadTx): Promise<readonly TenantId[]>
}>
