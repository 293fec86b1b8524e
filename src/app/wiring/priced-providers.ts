import type { PricedProvider } from '../../model-proxy/ports.ts'
import { anthropic } from '../../model-proxy/protocols/anthropic.ts'
import { gemini } from '../../model-proxy/protocols/gemini.ts'
import { openai } from '../../model-proxy/protocols/openai.ts'
import type { Protocol } from '../../model-proxy/protocols/protocol.ts'
import type { ProviderSettings, ProviderType } from '../../models/ports.ts'

export const protocols: Readonly<Record<ProviderType, Protocol>> = {
  openai,
  anthropic,
  gemini,
  ollama: openai,
  'openai-compatible': openai,
}

/** Configured prices, for models that have one. */
export const configuredPricesOf = (settings: ProviderSettings | undefined): PricedProvider['configuredPrices'] =>
  new Map(
    (settings?.models ?? [])
      .filter(({ inputCost, outputCost }) => inputCost !== null || outputCost !== null)
      .map(({ model, inputCost, outputCost, cacheReadCost, cacheWriteCost }) => {
        const input = inputCost ?? 0
        const cached = { cacheRead: cacheReadCost ?? input, cacheWrite: cacheWriteCost ?? input }
        return [model, { input, output: outputCost ?? 0, ...cached }]
      }),
  )

/** Configured sizes, for models that have one. */
export const contextWindowsOf = (settings: ProviderSettings | undefined): PricedProvider['contextWindows'] =>
  new Map(
    (settings?.models ?? []).flatMap(({ model, contextWindow }) => (contextWindow ? [[model, contextWindow]] : [])),
  )

const known = new WeakMap<ProviderSettings, PricedProvider>()

/** One object for each provider. */
export function pricedProviderOf(settings: ProviderSettings): PricedProvider {
  const before = known.get(settings)
  if (before !== undefined) return before
  const { name, type } = settings
  const isPublic = type === 'openai' || type === 'anthropic' || type === 'gemini'
  const configured = { configuredPrices: configuredPricesOf(settings), contextWindows: contextWindowsOf(settings) }
  const made = { name, protocol: protocols[type], isPublic, ...configured }
  known.set(settings, made)
  return made
}
