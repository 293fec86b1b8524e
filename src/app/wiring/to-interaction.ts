import type { Interaction } from '../../contract/interaction.ts'
import { limits } from '../../contract/limits.ts'
import { identityOf } from '../../contract/principal.ts'
import { usageSubjectOf } from '../../contract/usage-limits.ts'
import type { FinishedRequest, Upstream } from '../../model-proxy/ports.ts'
import type { Prices } from '../../model-proxy/prices.ts'

const bounded = (name: string | null): string | null =>
  name?.slice(0, limits.interactionModelCharsMax).toWellFormed() ?? null

/** A request through the model proxy, as an interaction. */
export function toInteraction(request: FinishedRequest, savedNanodollars: number | null): Interaction {
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
    providerKeyScope: request.providerKeyScope,
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
    rule: request.rule,
    isStream: request.isStream,
    outcome: request.status,
    httpStatus: request.httpStatus === 0 ? null : request.httpStatus,
    errorCode: request.errorCode,
    tokens: request.tokens ?? null,
    isEstimated: request.isEstimated,
    // An unanswered request cost nothing.
    costNanodollars: request.tokens === undefined ? 0 : request.costNanodollars,
    savedNanodollars,
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

/**
 * How much more the requested model would have cost for as many tokens; null if no rule replaced it, or a price is
 * unknown.
 */
export function savedBy(
  { baseline, tokens, costNanodollars }: FinishedRequest,
  { prices, upstreams }: Readonly<{ prices: Pick<Prices, 'costOf'>; upstreams: ReadonlyMap<string, Upstream> }>,
): number | null {
  const upstream = baseline === null ? undefined : upstreams.get(baseline.provider)
  if (upstream === undefined || tokens === undefined || costNanodollars === null) return null
  const without = prices.costOf(upstream, baseline!.model, tokens)
  return without === undefined ? null : without - costNanodollars
}
