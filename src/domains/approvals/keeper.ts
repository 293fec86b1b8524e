import { AppError } from '../../contract/app-error.ts'
import type { ApprovalRequest, Approvals, ApprovalsInRuns, KnownApproval } from '../../contract/approvals.ts'
import type { Database } from '../../contract/database.ts'
import { limits } from '../../contract/limits.ts'
import { identityOf, type Principal, type TenantId } from '../../contract/principal.ts'
import type { Trust } from '../../contract/trust.ts'
import type { Random } from '../../kernel/random.ts'
import type { Redactor } from '../../kernel/redactor.ts'
import { uuidOf } from '../../kernel/uuid.ts'
import type { ApprovalStore, CallKey } from './ports.ts'
import { displayedArguments, isRequestedFrom } from './rules.ts'

type ApprovalKeeperDeps = Readonly<{
  store: ApprovalStore
  database: Pick<Database, 'read'>
  trust: Pick<Trust, 'contextOf' | 'credentialOf'>
  random: Random
  inRuns: ApprovalsInRuns
  asksClients: boolean
  /** How long a request can be answered. */
  pendingMs: number
  /** Redacts secrets from what people of the tenant see. */
  redactorFor(tenant: TenantId): Redactor | undefined
}>

/** Approvals as the pipeline needs them: earlier answers for a call, and new requests. */
export function createApprovalKeeper(deps: ApprovalKeeperDeps): Approvals {
  const { store, trust } = deps

  const keyOf = (principal: Principal, toolId: string, argumentsDigest: string): CallKey => {
    const { runRootId, ...owner } = principal
    return {
      requester: identityOf(principal),
      context: trust.contextOf(principal),
      startedFrom: runRootId === undefined ? null : trust.contextOf(owner),
      toolId,
      argumentsDigest,
    }
  }

  return {
    inRuns: deps.inRuns,
    asksClients: deps.asksClients,

    async find(principal, { tool, argumentsDigest }, nowMs): Promise<KnownApproval | undefined> {
      const { tenant } = principal
      const key = keyOf(principal, tool.id, argumentsDigest)
      const found = await store.findForCall(deps.database.read, tenant, key, nowMs)
      if (found === undefined) return undefined
      const { status, answeredBy, note, tenant: _, answeredAtMs: __, usedAtMs: ___, ...request } = found
      return { request, status: status as KnownApproval['status'], answeredBy, note }
    },

    async isAwaited(principal, nowMs) {
      const filter = { requester: identityOf(principal), pendingAtMs: nowMs, limit: limits.approvalsPendingMax }
      const pending = await store.listApprovals(deps.database.read, principal.tenant, filter)
      // A key, or a program that a person allowed to act for them, is one program whatever connections it opens.
      if (trust.credentialOf(principal) !== undefined) return pending.length > 0
      const own = trust.contextOf(principal)
      return pending.some((approval) => isRequestedFrom(own, approval))
    },

    draft(principal, { tool, argumentsDigest, arguments: args, reason, policy, callId, nowMs }): ApprovalRequest {
      return {
        ...keyOf(principal, tool.id, argumentsDigest),
        ...displayedArguments(args, deps.redactorFor(principal.tenant)),
        id: uuidOf(deps.random.bytes(16)),
        tool: tool.name,
        reason,
        policy,
        requestedBy: principal.actor,
        callId,
        runId: null,
        waitKey: null,
        createdAtMs: nowMs,
        expiresAtMs: nowMs + deps.pendingMs,
      }
    },

    async request(tx, tenant, request) {
      const { createdAtMs: nowMs, requester } = request
      const same = await store.findForCall(tx, tenant, request, nowMs)
      if (same?.status === 'pending') return same
      if ((await store.countPending(tx, tenant, requester, nowMs)) >= limits.approvalsPendingMax) {
        throw new AppError(
          'ERR_QUOTA_EXCEEDED',
          `You have reached the limit of ${limits.approvalsPendingMax} calls that wait for an approval. Have some answered first.`,
          { pending_max: limits.approvalsPendingMax },
        )
      }
      await store.deleteOver(tx, tenant, nowMs - limits.approvalRetentionMs)
      const unanswered = { answeredAtMs: null, answeredBy: null, note: null, usedAtMs: null } as const
      await store.insertApproval(tx, tenant, { ...request, tenant, status: 'pending', ...unanswered })
      return request
    },

    async use(tx, tenant, id, nowMs) {
      const found = await store.findApproval(tx, tenant, id)
      if (found?.status !== 'approved' || found.expiresAtMs <= nowMs) return false
      return await store.moveApproval(tx, tenant, { ...found, status: 'used', usedAtMs: nowMs }, 'approved')
    },
  }
}
