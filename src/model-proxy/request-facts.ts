import { callerLabels, traceParentOf } from './caller-labels.ts'
import type { ExchangeInput } from './exchange-input.ts'

/** What is known of a request before it is answered. */
export const requestFacts = ({
  req,
  caller,
  proxy,
  route,
  request,
  replaced,
  keyScope,
  startedAtMs,
}: ExchangeInput) => ({
  tenant: caller.principal.tenant,
  caller,
  proxy,
  provider: route.upstream.name,
  protocol: route.upstream.protocol.name,
  operation: route.endpoint.operation,
  requestedModel: replaced === undefined ? request.model : replaced.requestedModel,
  rule: replaced?.rule ?? null,
  baseline: replaced?.baseline ?? null,
  isStream: request.isStream,
  providerKeyScope: keyScope,
  startedAtMs,
  labels: callerLabels(req.headers),
  traceParent: traceParentOf(req.headers),
  requestBody: request.bytes,
})
