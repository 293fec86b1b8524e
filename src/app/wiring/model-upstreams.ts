import { MODEL_ROUTER } from '../../model-proxy/find-route.ts'
import type { Upstream } from '../../model-proxy/ports.ts'
import { compatibleUrl, type ProviderSettings, type ProviderType } from '../../models/ports.ts'
import { configuredPricesOf, protocols } from './priced-providers.ts'

/** Where a provider is that the configuration does not name. Callers bring their own keys for it. */
const publicEndpoints = {
  openai: 'https://api.openai.com/v1',
  anthropic: 'https://api.anthropic.com/v1',
  gemini: 'https://generativelanguage.googleapis.com/v1beta',
} as const
/** First words of addresses that are something else. */
export const reservedProviderNames: ReadonlySet<string> = new Set([
  'agents',
  'executions',
  'human-approvals',
  MODEL_ROUTER,
  'seal',
  'tools',
  'workflows',
])

/** By name; the three providers are there too by the names of their protocols, as the first of their type. */
export function upstreamsOf(providers: readonly ProviderSettings[]): ReadonlyMap<string, Upstream> {
  const found = new Map<string, Upstream>()
  for (const [name, endpoint] of Object.entries(publicEndpoints)) {
    const settings = providers.find(({ type }) => type === name)
    const type = name as keyof typeof publicEndpoints
    found.set(name, upstreamOf(name, type, settings?.endpoint ?? endpoint, settings))
  }
  for (const settings of providers) {
    const { name, type } = settings
    if (reservedProviderNames.has(name)) continue
    const isNative = type === 'openai' || type === 'anthropic' || type === 'gemini'
    const endpoint = isNative ? (settings.endpoint ?? publicEndpoints[type]) : compatibleUrl(settings)
    found.set(name, upstreamOf(name, type, endpoint, settings))
  }
  return found
}

/** Paths of Gemini begin with the version of its protocol, so the endpoint ends before it. */
function upstreamOf(
  name: string,
  type: ProviderType,
  endpoint: string,
  settings: ProviderSettings | undefined,
): Upstream {
  const url = new URL(endpoint)
  const path = url.pathname.replace(/\/+$/, '')
  const basePath = type === 'gemini' ? path.replace(/\/v1(?:beta)?$/, '') : path
  return {
    name,
    protocol: protocols[type],
    origin: url.origin,
    basePath,
    apiKey: settings?.apiKey ?? null,
    isPublic: type in publicEndpoints,
    configuredPrices: configuredPricesOf(settings),
  }
}
