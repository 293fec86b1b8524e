import type { Principal, TenantId } from './principal.ts'
import type { ReadTx, WriteTx } from './tx.ts'

/** Who owns what outlives a request: workspaces, teams, schedules, runs, calls and streams. */
export type OwnerDirectory = Readonly<{
  /**
   * Whether the owner cannot come back. Only the local person, keys that are live and users are there; an identity of any other
   * kind is nobody's, and what it owns is for a caller that may adopt it.
   */
  isRevoked(tx: ReadTx | WriteTx, tenant: TenantId, owner: string): Promise<boolean>
  /** The same principal with no more than its owner may do now; undefined if the owner was revoked. */
  present(tx: ReadTx, principal: Principal): Promise<Principal | undefined>
  /** Whether the caller succeeds that owner, who was revoked, with at least the same rights. */
  isHeir(tx: ReadTx, principal: Principal, owner: string): Promise<boolean>
}>
