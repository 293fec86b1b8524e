import type { Interaction } from '../../contract/interaction.ts'
import { limits } from '../../contract/limits.ts'
import { identityOf } from '../../contract/principal.ts'
import { usageSubjectOf } from '../../contract/usage-limits.ts'
import type { FinishedRequest } from '../../model-proxy/ports.ts'

const bounded = (name: string | null): string | null =>
  name?.slice(0, limits.interactionModelCharsMax).toWellFormed() ?? null

/** A request that passed through the model proxy, as an interaction. */
export function interactionOfRequest(request: FinishedRequest): Interaction {
  const { caller, proxy, traceParent } = request
  const { principal } = caller
  return {
    tenant: request.tenant,
    owner: identityOf(principal),
    actor: principal.actor,
    authenticatedBy: caller.method,
    userId: usageSubjectOf(principal).user ?? null,
    keyId: principal.keyId ?? null,
    virtualKeyId: caller.virtualKey ?? null,
    teams: principal.teams,
    source: 'proxy',
    proxyId: proxy?.id ?? null,
    agentId: principal.agent ?? null,
    runId: principal.executionId ?? null,
    provider: request.provider,
    protocol: request.protocol,
    operation: request.operation,
    requestedModel: bounded(request.requestedModel),
    usedModel: bounded(request.usedModel),
    isStream: request.isStream,
    outcome: request.status,
    httpStatus: request.httpStatus === 0 ? null : request.httpStatus,
    errorCode: request.errorCode,
    tokens: request.tokens ?? null,
    isEstimated: request.isEstimated,
    // What was not answered cost nothing, which is known.
    costMicrodollars: request.tokens === undefined ? 0 : request.costMicrodollars,
    startedAtMs: request.startedAtMs,
    firstTokenMs: request.firstByteMs,
    durationMs: request.durationMs,
    requestBytes: request.requestBody?.length ?? 0,
    answerBytes: request.answerBytes,
    decisions: request.decisions.slice(0, limits.interactionDecisionsMax),
    labels: request.labels,
    ...(traceParent !== undefined && { traceParent }),
  }
}
