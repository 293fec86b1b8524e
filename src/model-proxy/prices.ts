import { calcPrice } from '@pydantic/genai-prices'
import type { PricedProvider, Tokens } from './ports.ts'

/** Millionths of a dollar; undefined for a model whose price nobody knows. */
export type Prices = Readonly<{
  costOf(upstream: PricedProvider, model: string, tokens: Tokens): number | undefined
  /** Tokens that the model reads and writes at most; undefined where that is not known. */
  contextOf(upstream: PricedProvider, model: string): number | undefined
}>

/** Dollars for a token. Where the configuration says nothing of the cache, what is in it costs as much as the rest. */
type Rates = Readonly<{
  input: number
  output: number
  cacheRead: number
  cacheWrite: number
  context: number | undefined
}>

/** By what the register of prices calls the provider; a compatible server is none of them. */
const providers = { openai: 'openai', anthropic: 'anthropic', gemini: 'google' } as const
const MICRODOLLARS = 1_000_000
/** Products of fractions are a little more or less than they should be, which is no further millionth. */
const INEXACT = 1e-6
const MANY = 1_000
/** Some models cost more by the token for long requests; those are looked up each time. */
const LONG_TOKENS = 100_000
const MODELS_MAX = 1_000

/**
 * What requests cost: by the configuration where it says so, else by the register of public prices. The rates of a model are found
 * once.
 */
export function createPrices(): Prices {
  const known = new Map<string, Rates | undefined>()

  function ratesOf(upstream: PricedProvider, model: string): Rates | undefined {
    const key = `${upstream.name}\n${model}`
    if (known.has(key)) return known.get(key)
    const rates = configured(upstream, model) ?? published(upstream, model)
    if (known.size >= MODELS_MAX) known.clear()
    known.set(key, rates)
    return rates
  }

  return {
    contextOf: (upstream, model) => ratesOf(upstream, model)?.context,
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
  const price = configuredPrices.get(model)
  if (price === undefined) return undefined
  const { input, output, cacheRead, cacheWrite } = price
  return {
    input: input / MICRODOLLARS,
    output: output / MICRODOLLARS,
    cacheRead: cacheRead / MICRODOLLARS,
    cacheWrite: cacheWrite / MICRODOLLARS,
    context: undefined,
  }
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
    context: found.model.context_window,
  }
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
