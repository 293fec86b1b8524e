import type { ApprovalRequest } from '../../contract/approvals.ts'
import type { TenantId } from '../../contract/principal.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'

/** `withdrawn`: the run that asked waits no more. */
export type ApprovalStatus = 'pending' | 'approved' | 'denied' | 'used' | 'withdrawn'

/** An approval that was given can be used until `expiresAtMs`; a pending one can be answered until then. */
export type StoredApproval = ApprovalRequest &
  Readonly<{
    tenant: TenantId
    status: ApprovalStatus
    answeredAtMs: number | null
    answeredBy: string | null
    note: string | null
    usedAtMs: number | null
  }>

/** Which call it was: the same tool with the same arguments, of the same caller in the same context. */
export type CallKey = Pick<StoredApproval, 'requester' | 'context' | 'toolId' | 'argumentsDigest'>

export type ApprovalFilter = Readonly<{
  /** Only what was asked for this identity. */
  requester?: string | undefined
  pendingAtMs?: number | undefined
  limit: number
}>

/** Every method answers for one tenant only. */
export type ApprovalStore = Readonly<{
  insertApproval(tx: WriteTx, tenant: TenantId, approval: StoredApproval): Promise<void>
  /** Writes what an answer changes. Answers false unless the approval is `from`: of two at once, one wins. */
  moveApproval(tx: WriteTx, tenant: TenantId, approval: StoredApproval, from: ApprovalStatus): Promise<boolean>
  findApproval(tx: ReadTx | WriteTx, tenant: TenantId, id: string): Promise<StoredApproval | undefined>
  /** The newest of that call that can still be answered or used, or that was denied, at the time. */
  findForCall(tx: ReadTx | WriteTx, tenant: TenantId, call: CallKey, nowMs: number): Promise<StoredApproval | undefined>
  /** The newest first. */
  listApprovals(tx: ReadTx, tenant: TenantId, filter: ApprovalFilter): Promise<StoredApproval[]>
  countPending(tx: WriteTx, tenant: TenantId, requester: string, nowMs: number): Promise<number>
  /** Removes what was over before the time. */
  deleteOver(tx: WriteTx, tenant: TenantId, beforeMs: number): Promise<void>
}>
