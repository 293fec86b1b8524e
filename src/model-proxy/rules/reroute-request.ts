import type { Random } from '../../kernel/random.ts'
import { MODEL_ROUTER, type Route } from '../find-route.ts'
import { isGranted } from '../grants.ts'
import type { Caller, Upstream } from '../ports.ts'
import type { Endpoint } from '../protocols/protocol.ts'
import { type PreparedRequest, prepareRequest } from '../request-body.ts'
import { type RoutedRequest, routeRequest } from '../router/route-request.ts'
import type { Target } from './model-rules.ts'

type RequestParts = Readonly<{
  /** The route of the address. */
  route: Route & Readonly<{ endpoint: Endpoint }>
  /** The request for the requested model, in the caller's format. */
  request: PreparedRequest
  /** As the caller sent it. */
  body: Buffer
  caller: Caller
  /** The caller sends its own provider key. */
  hasOwnKey: boolean
}>

/**
 * The same request for another model. Undefined if that is not possible: the provider uses another protocol than the caller, the
 * caller's key does not allow the model, or the caller's own key is for another provider.
 */
export function rerouteRequest(
  { route, request, body, caller, hasOwnKey }: RequestParts,
  { provider, model }: Target,
  upstreams: ReadonlyMap<string, Upstream>,
  parts: Readonly<{ random: Random; nowMs: number }>,
): RoutedRequest | undefined {
  const upstream = upstreams.get(provider)
  if (upstream === undefined || !isGranted(caller, provider, model)) return undefined
  const isRouted = route.upstream.name === MODEL_ROUTER
  if (hasOwnKey && (isRouted || route.upstream.name !== provider)) return undefined
  if (isRouted) {
    const fields = JSON.parse(body.toString('utf8')) as Record<string, unknown>
    const bytes = Buffer.from(JSON.stringify({ ...fields, model: `${provider}:${model}` }))
    return routeRequest(route, bytes, upstreams, parts)
  }
  if (upstream.protocol.name !== route.upstream.protocol.name) return undefined
  const endpoint = withModel(route.endpoint, model)
  // A model in the address is not in the body.
  const bytes =
    route.endpoint.model === undefined ? Buffer.from(JSON.stringify({ ...parsed(body), model })) : request.bytes!
  const format = upstream.protocol.formatOf(endpoint.operation)
  return { route: { ...route, upstream, endpoint }, request: prepareRequest(bytes, endpoint, format), headers: [] }
}

const parsed = (body: Buffer): Record<string, unknown> => JSON.parse(body.toString('utf8')) as Record<string, unknown>

function withModel(endpoint: Endpoint, model: string): Endpoint {
  if (endpoint.model === undefined) return endpoint
  const path = endpoint.path.replace(/models\/[^:/]+/, () => `models/${encodeURIComponent(model)}`)
  return { ...endpoint, path, model }
}
