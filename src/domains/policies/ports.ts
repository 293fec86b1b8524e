import type { Condition, InvocationAction, ResultAction } from '../../contract/policy-conditions.ts'
import type { TenantId } from '../../contract/principal.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'

export type PolicyKind = 'invocation' | 'trusted_data'

/** A rule for one tool. Without conditions it is the tool's default. `note` is its author's comment. */
export type StoredPolicy<Kind extends PolicyKind = PolicyKind> = Readonly<{
  tenant: TenantId
  id: string
  kind: Kind
  toolId: string
  conditions: readonly Condition[]
  action: Kind extends 'invocation' ? InvocationAction : ResultAction
  note: string | null
  /** Policies are evaluated in this order. */
  position: number
  createdAtMs: number
  updatedAtMs: number
}>

/** Every method answers for one tenant only, except `versions`. */
export type PolicyStore = Readonly<{
  insertPolicy(tx: WriteTx, tenant: TenantId, policy: StoredPolicy): Promise<void>
  /** Everything but its kind, position and time of creation. */
  savePolicy(tx: WriteTx, tenant: TenantId, policy: StoredPolicy): Promise<void>
  /** Answers whether it was there. */
  deletePolicy(tx: WriteTx, tenant: TenantId, id: string): Promise<boolean>
  findPolicy(tx: ReadTx | WriteTx, tenant: TenantId, id: string): Promise<StoredPolicy | undefined>
  /** In their order. */
  listPolicies(tx: ReadTx | WriteTx, tenant: TenantId): Promise<StoredPolicy[]>
  /** How many there are, and the highest position. */
  extent(tx: ReadTx | WriteTx, tenant: TenantId): Promise<Readonly<{ count: number; lastPosition: number }>>
  /** The number grows with every change, and tells other processes of it. */
  raiseVersion(tx: WriteTx, tenant: TenantId): Promise<void>
  versions(tx: ReadTx): Promise<ReadonlyMap<TenantId, number>>
}>
