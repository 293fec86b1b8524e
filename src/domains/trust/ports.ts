import type { TenantId } from '../../contract/principal.ts'
import type { ContextKey, TaintCause } from '../../contract/trust.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'

export type TaintedContext = Readonly<{ tenant: TenantId; context: ContextKey; cause: TaintCause; sinceMs: number }>

/** Every method answers for one tenant only, but for `tenants`. */
export type TrustStore = Readonly<{
  /** Does nothing where the context is tainted already: the first cause stays. */
  insertTaint(tx: WriteTx, tenant: TenantId, tainted: TaintedContext): Promise<void>
  /** Answers whether it was there. */
  deleteTaint(tx: WriteTx, tenant: TenantId, context: ContextKey): Promise<boolean>
  findTaint(tx: ReadTx | WriteTx, tenant: TenantId, context: ContextKey): Promise<TaintedContext | undefined>
  /** The newest first. */
  listTaints(tx: ReadTx, tenant: TenantId, limit: number): Promise<TaintedContext[]>
  /** Those that have a tainted context. */
  tenants(tx: ReadTx): Promise<readonly TenantId[]>
}>
