import { AppError } from '../../contract/app-error.ts'
import type { ApprovalRequest, Approvals } from '../../contract/approvals.ts'
import type { EffectRecord } from '../../contract/call.ts'
import type { CallingClientCapabilities, ClientQuestion } from '../../contract/calling-client.ts'
import type { Decision } from '../../contract/decision.ts'
import { limits } from '../../contract/limits.ts'
import { isPermitted } from '../../contract/permissions.ts'
import { isAtConsole, isPerson } from '../../contract/person.ts'
import type { InvocationVerdict } from '../../contract/tool-policies.ts'
import type { WriteTx } from '../../contract/tx.ts'
import { isoTime } from '../../kernel/clock.ts'
import { withTimeout } from '../../kernel/with-timeout.ts'
import { denied, type KnownTool } from './denied-call.ts'
import type { Invocation } from './stages.ts'
import type { ToolFailure } from './tool-host.ts'

type RequestedApproval = Readonly<{ failure: ToolFailure; effects: readonly EffectRecord[] }>

/** Calls that proceed only if a person approves. Without a store nobody can be asked, and they are denied. */
export function createApprovalGate(approvals: Approvals | undefined) {
  const decided = (
    invocation: Invocation,
    { policy }: InvocationVerdict,
    verdict: Decision['verdict'],
    reason: string,
  ) => invocation.decisions.push({ stage: 'approval', verdict, ...(policy !== undefined && { policy }), reason })

  /** Lets the call proceed if a person approved it; otherwise requests an approval. */
  async function seek(invocation: Invocation, tool: KnownTool, verdict: InvocationVerdict): Promise<void> {
    if (approvals === undefined) throw denied(invocation, tool, verdict)
    const { caller, options, nowMs, inputDigest: argumentsDigest } = invocation
    const { principal, transport } = caller
    const known = await approvals.find(principal, { tool, argumentsDigest }, nowMs)
    if (known?.status === 'approved') {
      invocation.approval = known.request.id
      decided(invocation, verdict, 'allow', `approval ${known.request.id}`)
      return
    }
    if (known?.status === 'denied') {
      decided(invocation, verdict, 'deny', `approval ${known.request.id}`)
      const words = known.note === null ? '' : ` and says: ${known.note}`
      throw denied(invocation, tool, { ...verdict, reason: `a person denied this call${words}` })
    }
    const isOfRun = principal.runRootId !== undefined || transport === 'agent' || transport === 'engine'
    if (isOfRun && approvals.inRuns === 'deny') {
      decided(invocation, verdict, 'deny', 'approvals.in_runs: deny')
      throw denied(invocation, tool, { ...verdict, reason: `${verdict.reason}; runs do not ask a person` })
    }
    const request =
      known?.request ??
      approvals.draft(principal, {
        ...{ tool, argumentsDigest, nowMs },
        arguments: invocation.args,
        reason: verdict.reason,
        policy: verdict.policy ?? null,
        callId: invocation.callId,
      })
    if (!isOfRun && (await isApprovedAtClient(invocation, tool, verdict, request))) return
    const waits = isOfRun && options.waitsForApproval === true && approvals.inRuns === 'wait'
    decided(invocation, verdict, 'require_approval', `approval ${request.id}`)
    if (!waits && known === undefined) invocation.asks = request
    throw approvalRequired(request, waits)
  }

  /** A context that waits for an approval may not change the rule that requires it. */
  async function requireNoneAwaited(invocation: Invocation, tool: KnownTool): Promise<void> {
    const { caller, nowMs } = invocation
    if (approvals === undefined || isAtConsole(caller)) return
    if (!(await approvals.isAwaited(caller.principal, nowMs))) return
    const reason = 'a call of this context waits for the approval of a person'
    const verdict = { action: 'deny', specificity: 'built-in', reason, becauseUntrusted: false, trace: [] } as const
    decided(invocation, verdict, 'deny', `built-in: ${reason}`)
    throw denied(invocation, tool, verdict)
  }

  /** Asks the person at the client, if the client offers elicitation and that person could also answer the approval elsewhere. */
  async function isApprovedAtClient(
    invocation: Invocation,
    tool: KnownTool,
    verdict: InvocationVerdict,
    request: ApprovalRequest,
  ): Promise<boolean> {
    const { client } = invocation.options
    const { caller } = invocation
    if (!approvals!.asksClients || !isPerson(caller) || !isPermitted(caller.principal, 'approval:update')) return false
    if (client === undefined || !showsForms(client.capabilities)) return false
    const signal = withTimeout(invocation.signal, limits.approvalAskMs)
    let answer: Readonly<Record<string, unknown>> | undefined
    try {
      answer = (await client.ask({ approval: questionOf(request) }, signal))['approval']
    } catch {
      invocation.signal.throwIfAborted()
      return false
    }
    const { action, content } = (answer ?? {}) as { action?: string; content?: { decision?: unknown } }
    if (action === 'accept' && content?.decision === 'approve') {
      decided(invocation, verdict, 'allow', 'the person at the client approved')
      return true
    }
    if (action !== 'decline' && action !== 'accept') return false
    decided(invocation, verdict, 'deny', 'the person at the client denied')
    throw denied(invocation, tool, {
      ...verdict,
      reason: 'the person at the client denied this call',
    })
  }

  /** In the transaction of the call, or before its external effect. Throws if another call used the approval first. */
  async function use(tx: WriteTx, { approval, caller, nowMs }: Invocation): Promise<void> {
    if (await approvals!.use(tx, caller.principal.tenant, approval!, nowMs)) return
    throw new AppError(
      'ERR_APPROVAL_REQUIRED',
      'Another call has used this approval. Make the call again to request another one.',
      { approval_id: approval! },
    )
  }

  /** In the transaction of the log entry of a call that needs approval. */
  async function request(tx: WriteTx, invocation: Invocation): Promise<RequestedApproval | undefined> {
    const { asks, caller } = invocation
    if (asks === undefined) return undefined
    const stored = await approvals!.request(tx, caller.principal.tenant, asks)
    const { code, message, details } = approvalRequired(stored, false)
    const effects = stored.id === asks.id ? [requestedEffect(stored)] : []
    return { failure: { code, message, details }, effects }
  }

  return { seek, requireNoneAwaited, use, request }
}

/** The error of this one call. A run that waits itself is told what to request. */
function approvalRequired(request: ApprovalRequest, isFromRun: boolean): AppError {
  const { id, tool, policy, reason } = request
  const expires_at = isoTime(request.expiresAtMs)
  const message = `'${tool}' needs a person's approval; the request is ${id}, open until ${expires_at}. Reason: ${reason}. A person answers it with castellan approvals approve ${id}, or signed in at the web address of the server with POST /v1/approvals/${id}/approve; another person also with approval_answer. After that, make exactly the same call again.`
  const details = { tool, policy, reason, approval_id: id, expires_at, ...(isFromRun && { request }) }
  return new AppError('ERR_APPROVAL_REQUIRED', message, details as ConstructorParameters<typeof AppError>[2])
}

const requestedEffect = (request: ApprovalRequest): EffectRecord => ({
  kind: 'approval_requested',
  body: {
    approval_id: request.id,
    tool: request.tool,
    policy: request.policy,
    arguments_digest: request.argumentsDigest,
    context: request.context,
    expires_at: isoTime(request.expiresAtMs),
  },
})

/** A client that declares elicitation without details supports forms. */
const showsForms = ({ elicitation }: CallingClientCapabilities): boolean =>
  elicitation !== undefined && (elicitation['form'] !== undefined || Object.keys(elicitation).length === 0)

const questionOf = ({ tool, reason, arguments: args, isMasked }: ApprovalRequest): ClientQuestion => ({
  method: 'elicitation/create',
  params: {
    message: `May '${tool}' be called? A policy asks for your approval: ${reason}. Arguments${isMasked ? ', without secrets and shortened' : ''}: ${JSON.stringify(args)}`,
    requestedSchema: {
      type: 'object',
      properties: {
        decision: { type: 'string', title: 'Decision', enum: ['approve', 'deny'], enumNames: ['Approve', 'Deny'] },
      },
      required: ['decision'],
    },
  },
})
