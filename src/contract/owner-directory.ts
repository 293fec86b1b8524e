import type { Principal, TenantId } from './principal.ts'
import type { ReadTx, WriteTx } from './tx.ts'

/** The owners of everything that outlives a request: workspaces, teams, schedules, runs, calls and streams. */
export type OwnerDirectory = Readonly<{
  /**
   * Whether the owner is revoked for good. Only the local owner, live keys and users are owners; any other identity counts as
   * revoked, and a caller that may adopt its things can.
   */
  isRevoked(tx: ReadTx | WriteTx, tenant: TenantId, owner: string): Promise<boolean>
  /** The same principal, limited to its owner's present rights; undefined if the owner was revoked. */
  present(tx: ReadTx, principal: Principal): Promise<Principal | undefined>
  /** Whether the caller succeeds that revoked owner, with at least the same rights. */
  isSuccessor(tx: ReadTx, principal: Principal, owner: string): Promise<boolean>
}>
