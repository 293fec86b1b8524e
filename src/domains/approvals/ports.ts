import type { ApprovalRequest } from '../../contract/approvals.ts'
import type { TenantId } from '../../contract/principal.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'

/** `withdrawn`: the requesting run no longer waits. */
export type ApprovalStatus = 'pending' | 'approved' | 'denied' | 'used' | 'withdrawn'

/** An approved request can be used until `expiresAtMs`; a pending one can be answered until then. */
export type StoredApproval = ApprovalRequest &
  Readonly<{
    tenant: TenantId
    status: ApprovalStatus
    answeredAtMs: number | null
    answeredBy: string | null
    note: string | null
    usedAtMs: number | null
  }>

/**
 * Identifies the call: the same tool and arguments, of the same caller. A run is its own caller. Outside of runs the connection does
 * not count, because people answer after minutes or days, and connections end before.
 */
export type CallKey = Pick<StoredApproval, 'requester' | 'context' | 'startedFrom' | 'toolId' | 'argumentsDigest'>

type ApprovalFilter = Readonly<{
  /** Only requests of this identity. */
  requester?: string | undefined
  pendingAtMs?: number | undefined
  limit: number
}>

/** Every method answers for one tenant only. */
export type ApprovalStore = Readonly<{
  insertApproval(tx: WriteTx, tenant: TenantId, approval: StoredApproval): Promise<void>
  /** Writes an answer. Returns false unless the approval has the status `from`: of two concurrent answers, one wins. */
  moveApproval(tx: WriteTx, tenant: TenantId, approval: StoredApproval, from: ApprovalStatus): Promise<boolean>
  findApproval(tx: ReadTx | WriteTx, tenant: TenantId, id: string): Promise<StoredApproval | undefined>
  /** The newest approval of that call that can still be answered or used, or that was denied, at the time. */
  findForCall(tx: ReadTx | WriteTx, tenant: TenantId, call: CallKey, nowMs: number): Promise<StoredApproval | undefined>
  /** The newest first. */
  listApprovals(tx: ReadTx, tenant: TenantId, filter: ApprovalFilter): Promise<StoredApproval[]>
  countPending(tx: WriteTx, tenant: TenantId, requester: string, nowMs: number): Promise<number>
  /** Removes approvals that ended before the time. */
  deleteOver(tx: WriteTx, tenant: TenantId, beforeMs: number): Promise<void>
}>
