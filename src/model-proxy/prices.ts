import { calcPrice } from '@pydantic/genai-prices'
import type { PricedProvider, Tokens } from './ports.ts'

/** Millionths of a dollar; undefined for a model without a known price. */
export type Prices = Readonly<{
  costOf(upstream: PricedProvider, model: string, tokens: Tokens): number | undefined
  /** The context size of the model; undefined if unknown. */
  contextOf(upstream: PricedProvider, model: string): number | undefined
}>

/** Dollars for a token. Without configured cache prices, cached tokens cost as much as others. */
type Rates = Readonly<{
  input: number
  output: number
  cacheRead: number
  cacheWrite: number
}>

/** The provider's name in the register of prices; a compatible server has none. */
const providers = { openai: 'openai', anthropic: 'anthropic', gemini: 'google' } as const
const MICRODOLLARS = 1_000_000
/** Products of fractions are slightly inexact, which must not round up by a millionth. */
const INEXACT = 1e-6
const MANY = 1_000
/** Some models cost more for each token of long requests; those are looked up each time. */
const LONG_TOKENS = 100_000
const MODELS_MAX = 1_000

/** The costs of requests: configured prices, else the register of public prices. The rates of a model are looked up once. */
export function createPrices(): Prices {
  const known = new WeakMap<PricedProvider, Map<string, Rates | null>>()
  const contexts = new WeakMap<PricedProvider, Map<string, number | null>>()

  function ratesOf(upstream: PricedProvider, model: string): Rates | undefined {
    const ofProvider = known.get(upstream) ?? new Map<string, Rates | null>()
    const found = ofProvider.get(model)
    if (found !== undefined) return found ?? undefined
    const rates = configured(upstream, model) ?? published(upstream, model)
    if (ofProvider.size >= MODELS_MAX) ofProvider.clear()
    known.set(upstream, ofProvider.set(model, rates ?? null))
    return rates
  }

  function contextOf(upstream: PricedProvider, model: string): number | undefined {
    const ofProvider = contexts.get(upstream) ?? new Map<string, number | null>()
    const found = ofProvider.get(model)
    if (found !== undefined) return found ?? undefined
    const context = spelt(upstream.contextWindows, model) ?? publishedContext(upstream, model)
    if (ofProvider.size >= MODELS_MAX) ofProvider.clear()
    contexts.set(upstream, ofProvider.set(model, context ?? null))
    return context
  }

  return {
    contextOf,
    costOf(upstream, model, tokens) {
      const rates = ratesOf(upstream, model)
      if (rates === undefined) return undefined
      const isLong = tokens.input > LONG_TOKENS && configured(upstream, model) === undefined
      const dollars = isLong ? (priceOf(upstream, model, tokens)?.total_price ?? 0) : linear(rates, tokens)
      return Math.max(0, Math.ceil(dollars * MICRODOLLARS - INEXACT))
    },
  }
}

const linear = (rates: Rates, { input, output, cacheRead, cacheWrite }: Tokens): number =>
  Math.max(0, input - cacheRead - cacheWrite) * rates.input +
  cacheRead * rates.cacheRead +
  cacheWrite * rates.cacheWrite +
  output * rates.output

function configured({ configuredPrices }: PricedProvider, model: string): Rates | undefined {
  const price = spelt(configuredPrices, model)
  if (price === undefined) return undefined
  const { input, output, cacheRead, cacheWrite } = price
  return {
    input: input / MICRODOLLARS,
    output: output / MICRODOLLARS,
    cacheRead: cacheRead / MICRODOLLARS,
    cacheWrite: cacheWrite / MICRODOLLARS,
  }
}

/** Providers ignore the case of a name, and accept their own before it. A tuned model, `ft:NAME:…`, has its own price. */
function spelt<Value>(byModel: ReadonlyMap<string, Value>, model: string): Value | undefined {
  const found = byModel.get(model)
  if (found !== undefined || byModel.size === 0) return found
  const whole = model.toLowerCase()
  const names = [whole, whole.slice(whole.lastIndexOf('/') + 1)]
  return [...byModel].find(([name]) => names.includes(name.toLowerCase()))?.[1]
}

function published(upstream: PricedProvider, model: string): Rates | undefined {
  const none = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, reasoning: 0 }
  const price = (tokens: Partial<Tokens>) => priceOf(upstream, model, { ...none, ...tokens })
  const found = price({ input: MANY })
  if (found === null) return undefined
  const rate = (tokens: Partial<Tokens>): number => (price(tokens)?.total_price ?? 0) / MANY
  return {
    input: rate({ input: MANY }),
    output: rate({ output: MANY }),
    cacheRead: rate({ input: MANY, cacheRead: MANY }),
    cacheWrite: rate({ input: MANY, cacheWrite: MANY }),
  }
}

/** The largest context of any model of the provider, where the register does not say. */
const largestContexts = { openai: 1_050_000, anthropic: 1_000_000, gemini: 2_097_152 } as const

function publishedContext(upstream: PricedProvider, model: string): number | undefined {
  if (!upstream.isPublic) return undefined
  const tokens = { input: MANY, output: 0, cacheRead: 0, cacheWrite: 0, reasoning: 0 }
  return priceOf(upstream, model, tokens)?.model.context_window ?? largestContexts[upstream.protocol.name]
}

function priceOf({ protocol, isPublic }: PricedProvider, model: string, tokens: Tokens): ReturnType<typeof calcPrice> {
  if (!isPublic) return null
  const usage = {
    input_tokens: tokens.input,
    output_tokens: tokens.output,
    cache_read_tokens: tokens.cacheRead,
    cache_write_tokens: tokens.cacheWrite,
  }
  return calcPrice(usage, model, { providerId: providers[protocol.name] })
}
