import { MODEL_ROUTER } from '../../model-proxy/find-route.ts'
import type { Upstream } from '../../model-proxy/ports.ts'
import { compatibleUrl, keyNamesOf, type ProviderSettings, type ProviderType, requiresKey } from '../../models/ports.ts'
import { configuredPricesOf, contextWindowsOf, protocols } from './priced-providers.ts'

/** Providers that the configuration does not name. Callers bring their own keys for them. */
const publicEndpoints = {
  openai: 'https://api.openai.com/v1',
  anthropic: 'https://api.anthropic.com/v1',
  gemini: 'https://generativelanguage.googleapis.com/v1beta',
} as const
/** Names below `/v1/` that every installation has. */
export const publicProviderNames: readonly string[] = [...Object.keys(publicEndpoints), MODEL_ROUTER]
/** First path segments that mean something else. */
export const reservedProviderNames: ReadonlySet<string> = new Set([
  'agents',
  'executions',
  'human-approvals',
  MODEL_ROUTER,
  'seal',
  'tools',
  'workflows',
])

/** By name; the three providers also by the names of their protocols, as the first of their type. */
export function upstreamsOf(providers: readonly ProviderSettings[]): ReadonlyMap<string, Upstream> {
  const found = new Map<string, Upstream>()
  for (const [name, endpoint] of Object.entries(publicEndpoints)) {
    const settings = providers.find(({ type }) => type === name)
    const type = name as keyof typeof publicEndpoints
    const keyNames = settings === undefined ? [name] : keyNamesOf(providers, settings)
    found.set(name, upstreamOf({ name, type, keyNames }, settings?.endpoint ?? endpoint, settings))
  }
  for (const settings of providers) {
    const { name, type } = settings
    if (reservedProviderNames.has(name)) continue
    const isNative = type === 'openai' || type === 'anthropic' || type === 'gemini'
    const endpoint = isNative ? (settings.endpoint ?? publicEndpoints[type]) : compatibleUrl(settings)
    const keyNames = keyNamesOf(providers, settings)
    found.set(name, upstreamOf({ name, type, keyNames }, endpoint, settings))
  }
  return found
}

/** Paths of Gemini begin with the protocol version, so the endpoint ends before it. */
function upstreamOf(
  { name, type, keyNames }: Readonly<{ name: string; type: ProviderType; keyNames: readonly string[] }>,
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
    keyNames,
    requiresKey: requiresKey({ type, endpoint: settings?.endpoint ?? null, unsetVariable: settings?.unsetVariable }),
    isPublic: type in publicEndpoints,
    configuredPrices: configuredPricesOf(settings),
    contextWindows: contextWindowsOf(settings),
  }
}
