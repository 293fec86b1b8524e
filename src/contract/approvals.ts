import type { Json } from '../kernel/canonical-json.ts'
import type { Principal, TenantId } from './principal.ts'
import type { PolicyTool } from './tool-policies.ts'
import type { ContextKey } from './trust.ts'
import type { WriteTx } from './tx.ts'

/**
 * What happens to a call in a run that a person must approve: the run waits, the call is denied, or the run continues without it.
 */
export const approvalsInRuns = ['wait', 'deny', 'fall_back'] as const
export type ApprovalsInRuns = (typeof approvalsInRuns)[number]

/** Prefix of the key under which a run waits for an approval; the id of the approval follows. */
export const APPROVAL_WAIT = 'approval/'

/** A call that a person is to approve. An approval is for exactly these arguments, of this caller; in a run for that run alone. */
export type ApprovalRequest = Readonly<{
  id: string
  tool: string
  toolId: string
  /** For people: without secrets, and shortened. */
  arguments: Json
  /** Whether anything was left out of the arguments. */
  isMasked: boolean
  argumentsDigest: string
  reason: string
  policy: string | null
  /** The identity on whose behalf the approval is requested. */
  requester: string
  /** The display name of the requester. */
  requestedBy: string
  context: ContextKey
  /** The context that started the requesting run. */
  startedFrom: ContextKey | null
  callId: string
  /** The run that waits for it, and the key of its wait. */
  runId: string | null
  waitKey: string | null
  createdAtMs: number
  expiresAtMs: number
}>

/** An earlier answer for the same call. */
export type KnownApproval = Readonly<{
  request: ApprovalRequest
  status: 'pending' | 'approved' | 'denied'
  answeredBy: string | null
  note: string | null
}>

type CallToApprove = Readonly<{ tool: PolicyTool & Readonly<{ id: string }>; argumentsDigest: string }>

/** Calls that wait for a person, as the pipeline and runs see them. */
export type Approvals = Readonly<{
  inRuns: ApprovalsInRuns
  /** Whether the person at the client is asked, if the client offers elicitation. */
  asksClients: boolean
  /** The approval in force for the same call of the same caller, over whichever of its connections; in a run, of that run. */
  find(principal: Principal, call: CallToApprove, nowMs: number): Promise<KnownApproval | undefined>
  /** Whether a call of the principal's context, of its program, or of a run that this connection started, waits for a person now. */
  isAwaited(principal: Principal, nowMs: number): Promise<boolean>
  /** A request that has not been stored. */
  draft(
    principal: Principal,
    call: CallToApprove &
      Readonly<{ arguments: unknown; reason: string; policy: string | null; callId: string; nowMs: number }>,
  ): ApprovalRequest
  /** Stores the request. If the same call is pending already, answers that request instead. Throws ERR_QUOTA_EXCEEDED. */
  request(tx: WriteTx, tenant: TenantId, request: ApprovalRequest): Promise<ApprovalRequest>
  /** Answers false if the approval was used or has expired. */
  use(tx: WriteTx, tenant: TenantId, id: string, nowMs: number): Promise<boolean>
}>
