import { AppError } from '../contract/app-error.ts'
import { callerLabels, traceParentOf } from './caller-labels.ts'
import type { ExchangeInput } from './exchange.ts'
import type { FinishedRequest } from './ports.ts'

/** A request that was not sent on because of a limit. Undefined for any other error, which says nothing about a model. */
export function refusedRequest(
  { req, caller, proxy, route, request, replaced, startedAtMs }: ExchangeInput,
  error: unknown,
  durationMs: number,
): FinishedRequest | undefined {
  if (!(error instanceof AppError) || error.code !== 'ERR_LIMIT_EXCEEDED') return undefined
  const limit = error.details['limit_id']
  return {
    tenant: caller.principal.tenant,
    caller,
    proxy,
    provider: route.upstream.name,
    protocol: route.upstream.protocol.name,
    operation: route.endpoint.operation,
    requestedModel: replaced === undefined ? request.model : replaced.asked,
    rule: replaced?.rule ?? null,
    usedModel: null,
    isStream: request.isStream,
    status: 'refused',
    httpStatus: 0,
    errorCode: error.code,
    tokens: undefined,
    costMicrodollars: null,
    isEstimated: false,
    startedAtMs,
    durationMs,
    firstByteMs: null,
    labels: callerLabels(req.headers),
    traceParent: traceParentOf(req.headers),
    decisions: [
      {
        stage: 'usage-limit',
        verdict: 'deny',
        ...(typeof limit === 'string' && { policy: limit }),
        reason: error.code,
      },
    ],
    requestBody: request.bytes,
    answerBytes: 0,
    answerBody: undefined,
  }
}
