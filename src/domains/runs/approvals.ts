import { APPROVAL_WAIT, type ApprovalRequest, type Approvals } from '../../contract/approvals.ts'
import type { InvocationResult } from '../../contract/tool-invoker.ts'
import type { Run, Steps } from '../../engine/ports.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import { isoTime } from '../../kernel/clock.ts'

export type ApprovalAnswer = Readonly<{ isApproved: boolean; text: string }>

type Waiting = Readonly<{ approvals: Pick<Approvals, 'request'>; run: Run; steps: Steps }>

/** The approval to request before the call; undefined for every other answer. */
export function approvalRequestOf({ code, value }: InvocationResult): ApprovalRequest | undefined {
  if (code !== 'ERR_APPROVAL_REQUIRED') return undefined
  const { error } = value as unknown as { error?: { details?: { request?: ApprovalRequest } } }
  return error?.details?.request
}

/**
 * Waits until a person has answered, or the time has passed. The request is stored in the same commit as the wait, whose key is
 * unique: an answer reaches this wait, even after a crash, and no other.
 */
export async function waitForApproval(
  { approvals, run, steps }: Waiting,
  request: ApprovalRequest,
  untilMs = request.expiresAtMs,
): Promise<ApprovalAnswer> {
  const key = `${APPROVAL_WAIT}${request.id}`
  const expiresAtMs = Math.min(request.expiresAtMs, untilMs)
  const answer = await steps.wait(key, {
    untilMs: expiresAtMs,
    details: {
      approval_id: request.id,
      tool: request.tool,
      prompt: `May '${request.tool}' be called with ${JSON.stringify(request.arguments)}? A policy requires approval: ${request.reason}`,
      until_ms: expiresAtMs,
    },
    alongside: async (tx) =>
      void (await approvals.request(tx, run.tenant, { ...request, runId: run.id, waitKey: key, expiresAtMs })),
  })
  if (answer.kind === 'timeout') return { isApproved: false, text: `nobody answered by ${isoTime(expiresAtMs)}` }
  const { decision, note } = answer.payload as { decision: string; note: string | null }
  if (decision === 'approve') return { isApproved: true, text: '' }
  return { isApproved: false, text: note === null ? 'a person denied it' : `a person denied it and says: ${note}` }
}

/** The result of a call that was not approved. */
export function unapproved({ tool, policy, id }: ApprovalRequest, text: string): InvocationResult {
  const message = `'${tool}' is denied: it needs an approval (${id}), and ${text}. Continue without this call.`
  const value: Json = { error: { code: 'ERR_POLICY_DENIED', message, details: { tool, policy, approval_id: id } } }
  return { isError: true, value, text: `ERR_POLICY_DENIED: ${message}`, code: 'ERR_POLICY_DENIED' }
}
