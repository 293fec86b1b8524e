import type { CleanupInterval, EntityType, LimitType } from '../../contract/limit-kinds.ts'
import type { TenantId } from '../../contract/principal.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'

/** A bound on one entity's use in each period. `value` is dollars for the type `token_cost`, and calls for the others. */
export type Limit = Readonly<{
  tenant: TenantId
  id: string
  entityType: EntityType
  entityId: string
  limitType: LimitType
  value: number
  /** Null for every model. */
  models: readonly string[] | null
  interval: CleanupInterval
  /** The server and the tool by id, and by their names when the limit was created. */
  server: Readonly<{ id: string; name: string }> | null
  tool: Readonly<{ id: string; name: string }> | null
  /** The start of non-calendar periods. */
  anchorMs: number
  createdAtMs: number
  createdBy: string
}>

/** `used` counts the units that processes have taken, whether or not they are spent yet. */
export type LimitUse = Readonly<{ periodStartMs: number; used: number }>

/** In billionths of a dollar, or calls. Reservations count as used. */
export type LimitStatus = Readonly<{ used: number; remaining: number; resetsAtMs: number }>

/** Every method answers for one tenant only. */
export type LimitStore = Readonly<{
  insertLimit(tx: WriteTx, tenant: TenantId, limit: Limit): Promise<void>
  /** Writes value, interval and anchor. Another interval resets the use. */
  saveLimit(tx: WriteTx, tenant: TenantId, limit: Limit, isNewInterval: boolean): Promise<void>
  deleteLimit(tx: WriteTx, tenant: TenantId, id: string): Promise<void>
  findLimit(tx: ReadTx, tenant: TenantId, id: string): Promise<(Limit & LimitUse) | undefined>
  /** By time of creation. */
  listLimits(tx: ReadTx, tenant: TenantId): Promise<(Limit & LimitUse)[]>
  /** Sets what is used in a period. */
  saveUse(tx: WriteTx, tenant: TenantId, id: string, use: LimitUse): Promise<void>
  /** Adds to the use, or subtracts from it; does nothing if the period has ended. */
  addUse(tx: WriteTx, tenant: TenantId, id: string, change: LimitUse): Promise<void>
}>
