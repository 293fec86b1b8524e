import type { Json } from '../kernel/canonical-json.ts'
import type { Principal, TenantId } from './principal.ts'
import type { PolicyTool } from './tool-policies.ts'
import type { ContextKey } from './trust.ts'
import type { WriteTx } from './tx.ts'

/** What becomes of a call in a run that a person must approve: the run waits, the call is denied, or the run goes on without it. */
export const approvalsInRuns = ['wait', 'deny', 'fall_back'] as const
export type ApprovalsInRuns = (typeof approvalsInRuns)[number]

/** The beginning of the key with which a run waits for an approval; its id follows. */
export const APPROVAL_WAIT = 'approval/'

/** A call that a person is to approve. An approval is for exactly these arguments, of this caller, in this context. */
export type ApprovalRequest = Readonly<{
  id: string
  tool: string
  toolId: string
  /** For people: without secrets, and shortened. */
  arguments: Json
  /** Whether anything is left out of them. */
  isMasked: boolean
  argumentsDigest: string
  reason: string
  policy: string | null
  /** The identity for which it is asked. */
  requester: string
  /** The name of who asks. */
  requestedBy: string
  context: ContextKey
  /** The context that began the run which asks. */
  startedFrom: ContextKey | null
  callId: string
  /** The run that waits for it, and the key of its wait. */
  runId: string | null
  waitKey: string | null
  createdAtMs: number
  expiresAtMs: number
}>

/** What was said before of the same call. */
export type KnownApproval = Readonly<{
  request: ApprovalRequest
  status: 'pending' | 'approved' | 'denied'
  answeredBy: string | null
  note: string | null
}>

type AskedCall = Readonly<{ tool: PolicyTool & Readonly<{ id: string }>; argumentsDigest: string }>

/** Calls that wait for a person, as those see them that make calls. */
export type Approvals = Readonly<{
  inRuns: ApprovalsInRuns
  /** Whether the person at the client is asked, where the client offers that. */
  asksClients: boolean
  /** What holds now for the same call of the same caller in the same context. */
  find(principal: Principal, call: AskedCall, nowMs: number): Promise<KnownApproval | undefined>
  /** Whether a call of the principal's context, or of a run that this connection began, waits for a person now. */
  isAwaited(principal: Principal, nowMs: number): Promise<boolean>
  /** A request that is not stored yet. */
  draft(
    principal: Principal,
    call: AskedCall &
      Readonly<{ arguments: unknown; reason: string; policy: string | null; callId: string; nowMs: number }>,
  ): ApprovalRequest
  /** Stores it, unless the same call is pending already: then that one is answered. Throws ERR_QUOTA_EXCEEDED. */
  request(tx: WriteTx, tenant: TenantId, request: ApprovalRequest): Promise<ApprovalRequest>
  /** Answers false if it was used, or is over. */
  use(tx: WriteTx, tenant: TenantId, id: string, nowMs: number): Promise<boolean>
}>
