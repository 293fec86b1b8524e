import { AppError } from '../contract/app-error.ts'
import { isPermitted } from '../contract/permissions.ts'
import { MODEL_ROUTER } from './find-route.ts'
import type { Caller, ProxyFacts, Upstream } from './ports.ts'

/** Whether the caller may reach models, and this provider. */
export function requirePermitted({ principal, grants }: Caller, upstream: Upstream): void {
  if (!isPermitted(principal, 'llmProxy:read')) {
    const message = "Requests to models need the permission 'llmProxy:read'. An administrator can grant it."
    throw new AppError('ERR_PERMISSION_DENIED', message, { permission: 'llmProxy:read' })
  }
  if (upstream.name === MODEL_ROUTER || isForProvider(grants, upstream.name)) return
  const message = `This key does not allow the provider '${upstream.name}'.${allowed(grants?.providers)}`
  throw new AppError('ERR_PERMISSION_DENIED', message, { provider: upstream.name })
}

export function requireProxy({ grants }: Caller, proxy: ProxyFacts | undefined): void {
  const proxies = grants?.proxies ?? null
  if (proxies === null || (proxy !== undefined && proxies.includes(proxy.id))) return
  throw new AppError('ERR_PERMISSION_DENIED', 'This key does not allow the model proxy at this address.')
}

/** `model` is null for a request without a model. */
export function requireModel({ grants }: Caller, provider: string, model: string | null): void {
  if (isForModel(grants, provider, model)) return
  const problem =
    model === null ? 'is missing, and this key allows only some models.' : 'this key does not allow this model.'
  const message = `model: ${problem}${allowed(grants?.models)}`
  throw new AppError('ERR_PERMISSION_DENIED', message, { field: 'model', provider })
}

/** More would hide the rest of the message. */
const NAMED_MAX = 10

/** What the key is for. The caller has the key and may know it. */
function allowed(names: readonly string[] | null | undefined): string {
  if (names === null || names === undefined || names.length === 0) return ''
  const more = names.length > NAMED_MAX ? ', and more' : ''
  return ` It allows: ${names.slice(0, NAMED_MAX).join(', ')}${more}.`
}

const isForProvider = (grants: Caller['grants'], provider: string): boolean =>
  grants === undefined || grants.providers === null || grants.providers.includes(provider)

/** By the name alone, or as `provider:model`. */
function isForModel(grants: Caller['grants'], provider: string, model: string | null): boolean {
  const models = grants?.models ?? null
  if (models === null) return true
  if (model === null) return false
  const names = [model, `${provider}:${model}`]
  return models.some((granted) =>
    granted.endsWith('*') ? names.some((name) => name.startsWith(granted.slice(0, -1))) : names.includes(granted),
  )
}

/** Whether the key allows the model at the provider. */
export const isGranted = ({ grants }: Caller, provider: string, model: string | null): boolean =>
  isForProvider(grants, provider) && isForModel(grants, provider, model)
