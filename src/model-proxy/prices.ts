import { calcPrice } from '@pydantic/genai-prices'
import type { PricedProvider, TokenKind, Tokens } from './ports.ts'

/** Billionths of a dollar; undefined for a model without a known price. */
export type Prices = Readonly<{
  costOf(upstream: PricedProvider, model: string, tokens: Tokens): number | undefined
  /** The tokens that cost most of all that a request may be billed for; undefined for a model without a known price. */
  dearestOf(upstream: PricedProvider, model: string, most: MostTokens): Tokens | undefined
  /** The context size of the model; undefined if unknown. */
  contextOf(upstream: PricedProvider, model: string): number | undefined
}>

/** The most that a request can be billed for. */
export type MostTokens = Readonly<{
  input: number
  output: number
  /** Of the input. The rest is text. */
  audio: number
  images: number
  /** Any part of the input may be of any kind. */
  isUnseen: boolean
  /** The provider may store the input, for so long. */
  storesInput: 'no' | 'minutes' | 'hour'
  /** The answer may be something other than text. */
  writesMedia: boolean
}>

/** Dollars for a token. */
type Rates = Readonly<Record<'input' | 'output' | 'cacheRead' | 'cacheWrite' | TokenKind, number>>
/** The rates of a model, by how many of the sizes a request exceeds from which on each token costs more. */
type ModelRates = Readonly<{ starts: readonly number[]; bySize: Map<number, Rates> }>

/** The provider's name in the register of prices; a compatible server has none. */
const providers = { openai: 'openai', anthropic: 'anthropic', gemini: 'google' } as const
const MILLION = 1_000_000
const NANODOLLARS = 1_000_000_000
/** Products of fractions are slightly inexact, which must not round up by a billionth. */
const INEXACT = 1e-3
const MANY = 1_000
const MODELS_MAX = 1_000

/** The costs of requests: configured prices, else the register of public prices. The rates of a model are looked up once. */
export function createPrices(): Prices {
  const known = new WeakMap<PricedProvider, Map<string, ModelRates | null>>()
  const contexts = new WeakMap<PricedProvider, Map<string, number | null>>()

  function modelRatesOf(upstream: PricedProvider, model: string): ModelRates | undefined {
    const ofProvider = known.get(upstream) ?? new Map<string, ModelRates | null>()
    const found = ofProvider.get(model)
    if (found !== undefined) return found ?? undefined
    const rates = configured(upstream, model) ?? published(upstream, model)
    if (ofProvider.size >= MODELS_MAX) ofProvider.clear()
    known.set(upstream, ofProvider.set(model, rates ?? null))
    return rates
  }

  function ratesOf(upstream: PricedProvider, model: string, input: number): Rates | undefined {
    const found = modelRatesOf(upstream, model)
    if (found === undefined) return undefined
    const exceeded = found.starts.findLastIndex((start) => input > start) + 1
    const rates = found.bySize.get(exceeded)
    if (rates !== undefined) return rates
    const larger = publishedRates(upstream, model, found.starts[exceeded - 1]! + 1)
    found.bySize.set(exceeded, larger)
    return larger
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
      const rates = ratesOf(upstream, model, tokens.input)
      if (rates === undefined) return undefined
      return Math.max(0, Math.ceil(linear(rates, tokens) * NANODOLLARS - INEXACT))
    },
    dearestOf(upstream, model, most) {
      const rates = ratesOf(upstream, model, most.input)
      return rates && dearest(rates, most)
    },
  }
}

const inputKinds = ['inputAudio', 'inputImage', 'inputVideo'] as const
const outputKinds = ['outputAudio', 'outputImage', 'outputVideo'] as const

/**
 * Kinds are parts of the totals; what is reported beyond a total does not count. If the provider does not say of which kind cached tokens
 * are, they are taken for text, so that the dearer ones count as new.
 */
function linear(rates: Rates, { input, output, cacheRead, cacheWrite, kinds }: Tokens): number {
  const text = Math.max(0, input - cacheRead - cacheWrite)
  const plain = text * rates.input + cacheRead * rates.cacheRead + cacheWrite * rates.cacheWrite + output * rates.output
  if (kinds === undefined) return plain
  const { inputAudio = 0, inputImage = 0, inputVideo = 0, cachedAudio = 0, cachedImage = 0 } = kinds
  let extra = 0
  /** Returns how many of each are left over. */
  const charge = (total: number, usual: number, counts: readonly (readonly [TokenKind, number])[]): number[] => {
    let left = total
    return counts.map(([kind, count]) => {
      const charged = Math.min(left, Math.max(0, count))
      left -= charged
      extra += charged * (rates[kind] - usual)
      return Math.max(0, count) - charged
    })
  }
  const [audio = 0, images = 0] = charge(text, rates.input, [
    ['inputAudio', inputAudio - cachedAudio],
    ['inputImage', inputImage - cachedImage],
    ['inputVideo', inputVideo],
  ])
  charge(cacheRead, rates.cacheRead, [
    ['cachedAudio', Math.min(cachedAudio, inputAudio) + audio],
    ['cachedImage', Math.min(cachedImage, inputImage) + images],
  ])
  charge(cacheWrite, rates.cacheWrite, [['cacheWriteHour', kinds.cacheWriteHour ?? 0]])
  const written = outputKinds.toSorted((one, other) => rates[other] - rates[one])
  charge(
    output,
    rates.output,
    written.map((kind) => [kind, kinds[kind] ?? 0]),
  )
  return plain + extra
}

/** Each part counts as the dearest that it can be. */
function dearest(
  rates: Rates,
  { input, output, audio, images, isUnseen, storesInput, writesMedia }: MostTokens,
): Tokens {
  const kinds: Partial<Record<TokenKind, number>> = {}
  const storing = storesInput === 'hour' ? rates.cacheWriteHour : storesInput === 'minutes' ? rates.cacheWrite : 0
  let cacheWrite = 0
  const add = (count: number, all: readonly TokenKind[], usual: number, stored: number): void => {
    const kind = all.reduce<TokenKind | undefined>(
      (best, one) => (rates[one] > (best === undefined ? usual : rates[best]) ? one : best),
      undefined,
    )
    if (stored > (kind === undefined ? usual : rates[kind])) cacheWrite += count
    else if (kind !== undefined) kinds[kind] = count
  }
  if (isUnseen) add(input, inputKinds, rates.input, storing)
  else {
    const heard = Math.min(audio, input)
    const seen = Math.min(images, input - heard)
    add(heard, ['inputAudio'], rates.input, storing)
    add(seen, ['inputImage'], rates.input, storing)
    add(input - heard - seen, [], rates.input, storing)
  }
  if (writesMedia) add(output, outputKinds, rates.output, 0)
  if (storesInput === 'hour') kinds.cacheWriteHour = cacheWrite
  return { input, output, cacheRead: 0, cacheWrite, reasoning: 0, kinds }
}

/** A configured price is that of every kind. Without configured cache prices, cached tokens cost as much as others. */
function configured({ configuredPrices }: PricedProvider, model: string): ModelRates | undefined {
  const price = spelt(configuredPrices, model)
  if (price === undefined) return undefined
  const [input, output] = [price.input / MILLION, price.output / MILLION]
  const [cacheRead, cacheWrite] = [price.cacheRead / MILLION, price.cacheWrite / MILLION]
  const rates = {
    ...{ input, inputAudio: input, inputImage: input, inputVideo: input },
    ...{ output, outputAudio: output, outputImage: output, outputVideo: output },
    ...{ cacheRead, cachedAudio: cacheRead, cachedImage: cacheRead, cacheWrite, cacheWriteHour: cacheWrite },
  }
  return { starts: [], bySize: new Map([[0, rates]]) }
}

/** Providers ignore the case of a name, and accept their own before it. A tuned model, `ft:NAME:…`, has its own price. */
function spelt<Value>(byModel: ReadonlyMap<string, Value>, model: string): Value | undefined {
  const found = byModel.get(model)
  if (found !== undefined || byModel.size === 0) return found
  const whole = model.toLowerCase()
  const names = [whole, whole.slice(whole.lastIndexOf('/') + 1)]
  return [...byModel].find(([name]) => names.includes(name.toLowerCase()))?.[1]
}

function published(upstream: PricedProvider, model: string): ModelRates | undefined {
  const found = priceOf(upstream, model, { input_tokens: MANY })
  if (found === null) return undefined
  const starts = Object.values(found.model_price).flatMap((price) =>
    typeof price === 'object' ? price.tiers.map(({ start }) => start) : [],
  )
  const sorted = [...new Set(starts)].sort((one, other) => one - other)
  return { starts: sorted, bySize: new Map([[0, publishedRates(upstream, model, MANY)]]) }
}

/** Of requests with so many tokens of input. A kind without a price of its own costs as much as the usual one. */
function publishedRates(upstream: PricedProvider, model: string, size: number): Rates {
  const rateOf = (more: Readonly<Record<string, number>>, part: 'input_price' | 'output_price'): number =>
    (priceOf(upstream, model, { input_tokens: size, output_tokens: size, ...more })?.[part] ?? 0) / size
  const input = (...parts: readonly string[]): number =>
    rateOf(Object.fromEntries(parts.map((name) => [name, size])), 'input_price')
  const output = (...parts: readonly string[]): number =>
    rateOf(Object.fromEntries(parts.map((name) => [name, size])), 'output_price')
  return {
    input: input(),
    inputAudio: input('input_audio_tokens'),
    inputImage: input('input_image_tokens'),
    inputVideo: input('input_video_tokens'),
    output: output(),
    outputAudio: output('output_audio_tokens'),
    outputImage: output('output_image_tokens'),
    outputVideo: output('output_video_tokens'),
    cacheRead: input('cache_read_tokens'),
    cachedAudio: input('cache_read_tokens', 'input_audio_tokens', 'cache_audio_read_tokens'),
    cachedImage: input('cache_read_tokens', 'input_image_tokens', 'cache_image_read_tokens'),
    cacheWrite: input('cache_write_tokens'),
    cacheWriteHour: input('cache_write_tokens', 'cache_write_1h_tokens'),
  }
}

/** The largest context of any model of the provider, where the register does not say. */
const largestContexts = { openai: 1_050_000, anthropic: 1_000_000, gemini: 2_097_152 } as const

function publishedContext(upstream: PricedProvider, model: string): number | undefined {
  if (!upstream.isPublic) return undefined
  const found = priceOf(upstream, model, { input_tokens: MANY })
  return found?.model.context_window ?? largestContexts[upstream.protocol.name]
}

function priceOf(
  { protocol, isPublic }: PricedProvider,
  model: string,
  usage: Readonly<Record<string, number>>,
): ReturnType<typeof calcPrice> {
  return isPublic ? calcPrice(usage, model, { providerId: providers[protocol.name] }) : null
}
