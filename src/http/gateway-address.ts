import { AppError } from '../contract/app-error.ts'
import { limits } from '../contract/limits.ts'
import type { Principal } from '../contract/principal.ts'

export const GATEWAY_PREFIX = '/mcp/'
const URLS_MAX = 256

/** The gateway that an address names. A client sends the same address with every request, so it is taken apart once. */
export function createGatewayOfUrl(): (url: string) => string {
  const known = new Map<string, string>()
  return (url) => {
    let gateway = known.get(url)
    if (gateway === undefined) {
      requireNoChoice(url)
      gateway = gatewayOf(url)
      if (known.size >= URLS_MAX) known.clear()
      known.set(url, gateway)
    }
    return gateway
  }
}

/** The part of the address after `/mcp/`. */
function gatewayOf(url: string): string {
  const path = url.split('?', 1)[0]!.slice(GATEWAY_PREFIX.length).replace(/\/$/, '')
  try {
    return decodeURIComponent(path).slice(0, limits.profileNameCharsMax)
  } catch {
    throw new AppError('ERR_INVALID_INPUT', 'The address is not percent-encoded correctly.', { field: 'address' })
  }
}

function requireNoChoice(url: string): void {
  const query = url.indexOf('?')
  const parameters = new URLSearchParams(query === -1 ? '' : url.slice(query + 1))
  const field = ['tools', 'mode'].find((name) => parameters.has(name))
  if (field === undefined) return
  throw new AppError(
    'ERR_INVALID_INPUT',
    `${field}: not accepted at a gateway, which has its own list of tools. Leave it out, or change the gateway with edit_mcp_gateway.`,
    { field },
  )
}

const BOUND_MAX = 256
const boundPrincipals = new WeakMap<Principal, Map<string, Principal>>()

/** One object for each principal and gateway: what is remembered of a principal is remembered by the object. */
export function throughGateway(principal: Principal, gateway: string | undefined): Principal {
  if (gateway === undefined) {
    throw new AppError(
      'ERR_ROUTE_NOT_FOUND',
      'There is no gateway and no agent at this address that you may use. list_mcp_gateways lists gateways.',
    )
  }
  const known = boundPrincipals.get(principal) ?? new Map<string, Principal>()
  let bound = known.get(gateway)
  if (bound === undefined) {
    bound = { ...principal, gateway }
    if (known.size >= BOUND_MAX) known.clear()
    boundPrincipals.set(principal, known.set(gateway, bound))
  }
  return bound
}
