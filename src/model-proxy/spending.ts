import { AppError } from '../contract/app-error.ts'
import type { CostRange, CostReservation, UsageLimits, UsageSubject } from '../contract/usage-limits.ts'
import type { AnsweringModels } from './answering-models.ts'
import { requireCountable } from './countable-request.ts'
import { billsImagesApart, type InputBound, inputBound } from './input-bound.ts'
import { longestAnswer } from './output-bound.ts'
import type { Caller, PricedProvider, ProxyFacts, Tokens } from './ports.ts'
import type { MostTokens, Prices } from './prices.ts'
import { fieldsOf, type Operation } from './protocols/protocol.ts'
import type { PreparedRequest } from './request-body.ts'
import { mayReason, NO_TOKENS, type OutputBounds } from './token-estimate.ts'

export type SpendingDeps = Readonly<{
  limits: UsageLimits
  prices: Prices
  answering: AnsweringModels
  defaultOutputTokens: number
}>

/** The money of one request: reserved before it is sent, and settled by its cost. */
export type Spending = OutputBounds &
  Readonly<{
    /** Returns the cost in billionths of a dollar; null if unknown. Settles once. */
    settle(usedModel: string | null, tokens: Tokens | undefined): number | null
  }>

/** Like `reserve`, for a request through the proxy. */
export function reserveFor(
  deps: SpendingDeps,
  upstream: PricedProvider,
  { caller, proxy }: Readonly<{ caller: Caller; proxy: ProxyFacts | undefined }>,
  {
    request,
    operation,
    headers,
  }: Readonly<{
    request: PreparedRequest
    operation: Operation
    headers: Readonly<Record<string, unknown>>
  }>,
  signal: () => AbortSignal,
): Spending | Promise<Spending> {
  const { body, bytes, model } = request
  const use = {
    subject: subjectOf(caller, proxy),
    model: model ?? '',
    input: () => inputBound({ operation, model: model ?? '', bytes, body }, upstream),
    output: outputBound(operation, body),
    requireCountable: () => requireCountable(operation, body),
    contextLeast: LONG_CONTEXT.test(String(headers['anthropic-beta'] ?? '')) ? LONG_CONTEXT_TOKENS : 0,
    kinds: () => ({ storesInput: storesInput(upstream, bytes), writesMedia: writesMedia(operation, body) }),
    body,
  }
  return reserve(deps, upstream, use, signal)
}

/** Anthropic stores what a request marks; others store as they like. A name can be written with an escape. */
function storesInput({ protocol }: PricedProvider, bytes: Buffer | undefined): MostTokens['storesInput'] {
  if (protocol.name !== 'anthropic') return 'minutes'
  const isEscaped = bytes?.includes('\\u00') === true
  if (!isEscaped && bytes?.includes('cache_control') !== true) return 'no'
  return isEscaped || bytes?.includes('1h') === true ? 'hour' : 'minutes'
}

const textAlone = (upstream: PricedProvider): Pick<MostTokens, 'storesInput' | 'writesMedia'> => ({
  storesInput: storesInput(upstream, undefined),
  writesMedia: false,
})

/** Models of OpenAI write text unless asked for something else; some of Gemini's write images unless asked for text. */
function writesMedia(operation: Operation, body: PreparedRequest['body']): boolean {
  if (operation !== 'generate') return isSaid(body?.['audio']) || asksForMedia(body?.['modalities'])
  const configs = ['generationConfig', 'generation_config'].map((name) => fieldsOf(body?.[name]))
  const said = configs.flatMap((config) => [config?.['responseModalities'], config?.['response_modalities']])
  return !said.some(isSaid) || said.some(asksForMedia)
}

const isSaid = (value: unknown): boolean => value !== undefined && value !== null
const asksForMedia = (modalities: unknown): boolean =>
  isSaid(modalities) &&
  !(Array.isArray(modalities) && modalities.every((one) => typeof one === 'string' && one.toLowerCase() === 'text'))

/** Requests a larger context than the register has for the model. */
const LONG_CONTEXT = /\bcontext-1m/
const LONG_CONTEXT_TOKENS = 1_000_000

/** `tokens`: of one answer, undefined if the request does not say. */
type OutputBound = Readonly<{ tokens: number | undefined; answers: number }>

/** The caller, the model, and the largest number of tokens. */
type ModelUse = Readonly<{
  subject: UsageSubject
  model: string
  /** Called only if it matters. */
  input(): InputBound
  output: OutputBound
  /** Refuses what makes the cost unknown. Called only if it matters. */
  requireCountable?(): void
  /** The context is at least so large, whatever is known of the model. */
  contextLeast?: number
  /** What may have another price than text. Called only if it matters; absent for text alone. */
  kinds?(): Pick<MostTokens, 'storesInput' | 'writesMedia'>
  body?: PreparedRequest['body']
}>

export const reserveTokens = async (...args: Parameters<typeof reserve>): Promise<Spending> => reserve(...args)

/**
 * Rejects like `reserveCost`. A caller whose cost is limited cannot use a model without a known price, nor refer to input
 * that is not in the request if the context of the model is not known: the limit could not be enforced.
 *
 * A provider may answer with another model than the requested one. What it answered with last counts in advance too; what it answers with
 * counts in any case.
 */
function reserve(
  { limits, prices, answering, defaultOutputTokens }: SpendingDeps,
  upstream: PricedProvider,
  { subject, model, input, output, requireCountable: check, contextLeast = 0, kinds, body }: ModelUse,
  signal: () => AbortSignal,
): Spending | Promise<Spending> {
  const models = answering.modelsFor(upstream, model)
  let bound: InputBound | undefined
  const inputOf = (name: string): Readonly<{ tokens: number; isKnown: boolean }> => {
    bound ??= input()
    const context = prices.contextOf(upstream, name)
    return mostInput(bound, context === undefined ? undefined : Math.max(context, contextLeast), name)
  }
  const leastOutput = (output.tokens ?? defaultOutputTokens) * output.answers
  const outputMax = (name: string): number | undefined => {
    if (output.tokens !== undefined) return leastOutput
    const longest = longestAnswer(upstream, name, prices.contextOf(upstream, name))
    return longest && Math.max(leastOutput, longest * output.answers)
  }
  const mostOutput = (name: string): number => outputMax(name) ?? leastOutput
  const mostOf = (name: string, written: number): Readonly<{ tokens: Tokens | undefined; isKnown: boolean }> => {
    const { tokens, isKnown } = inputOf(name)
    const { audioTokens: audio, imageTokens: images, isUnseen } = bound!
    const { storesInput: storing, writesMedia: media } = kinds?.() ?? textAlone(upstream)
    const most = { input: tokens, output: written, audio, images, isUnseen, storesInput: storing, writesMedia: media }
    return { tokens: prices.dearestOf(upstream, name, most), isKnown }
  }
  const costWith = (outputOf: (name: string) => number): number => {
    const costs = models.flatMap((name) => {
      const { tokens, isKnown } = mostOf(name, outputOf(name))
      const cost = tokens && prices.costOf(upstream, name, tokens)
      if (cost !== undefined && cost > 0 && !isKnown) throw unknownContext(upstream.name)
      return cost ?? []
    })
    if (costs.length === 0) throw unknownPrice(upstream.name)
    return Math.max(...costs)
  }
  const amount = (): number | CostRange => {
    check?.()
    const least = costWith(() => leastOutput)
    return output.tokens === undefined ? { least, most: costWith(mostOutput) } : least
  }
  const { isPublic, protocol } = upstream
  const spending = (reservation: CostReservation): Spending => ({
    most() {
      const written = Math.min(mostOutput(model), ANSWER_TOKENS_MAX)
      return mostOf(model, written).tokens ?? { ...NO_TOKENS, input: inputOf(model).tokens, output: written }
    },
    outputMax() {
      const most = outputMax(model)
      return most && Math.min(most, ANSWER_TOKENS_MAX)
    },
    answers: output.answers,
    mayReason: mayReason({ protocol: protocol.name, isPublic, model }, body),
    settle(usedModel, tokens) {
      if (usedModel !== null) answering.note(upstream, model, usedModel)
      const used = tokens ?? NO_TOKENS
      const paid = prices.costOf(upstream, usedModel ?? model, used) ?? prices.costOf(upstream, model, used)
      reservation.settle(paid ?? 0, usedModel ?? undefined)
      return tokens === undefined ? null : (paid ?? null)
    },
  })
  const reserved = limits.reserveCost(subject, models, amount, signal)
  return reserved instanceof Promise ? reserved.then(spending) : spending(reserved)
}

/** No request has more input than fits into the context of its model. */
function mostInput(
  { tokens, imageTokens, isUnseen }: InputBound,
  context: number | undefined,
  model: string,
): Readonly<{ tokens: number; isKnown: boolean }> {
  if (context === undefined) return { tokens, isKnown: !isUnseen }
  if (billsImagesApart(model)) {
    const rest = tokens - imageTokens
    return { tokens: (isUnseen ? context : Math.min(rest, context)) + imageTokens, isKnown: true }
  }
  return { tokens: isUnseen ? context : Math.min(tokens, context), isKnown: true }
}

const NO_PROXY = ''
const subjects = new WeakMap<Caller, Map<string, UsageSubject>>()

/** One object for each caller and proxy: what is remembered of a subject is remembered by the object. */
export function subjectOf(caller: Caller, proxy: ProxyFacts | undefined): UsageSubject {
  const known = subjects.get(caller) ?? new Map<string, UsageSubject>()
  const key = proxy?.id ?? NO_PROXY
  const found = known.get(key)
  if (found !== undefined) return found
  const { principal, virtualKey } = caller
  const subject = {
    tenant: principal.tenant,
    ...(principal.user !== undefined && { user: principal.user }),
    teams: principal.teams,
    profiles: [principal.agent, proxy?.id].filter((id) => id !== undefined),
    ...(virtualKey !== undefined && { virtualKey }),
  }
  if (known.size >= SUBJECTS_MAX) known.clear()
  subjects.set(caller, known.set(key, subject))
  return subject
}
const SUBJECTS_MAX = 256

/** Providers ignore the fields of other formats, so those bound nothing. An embedding writes nothing. */
const boundFields: Readonly<Partial<Record<Operation, readonly string[]>>> = {
  chat: ['max_completion_tokens', 'max_tokens'],
  responses: ['max_output_tokens'],
  messages: ['max_tokens'],
}

/** If several fields set a bound, the largest counts. */
function outputBound(operation: Operation, body: PreparedRequest['body']): OutputBound {
  if (operation === 'embeddings') return { tokens: 0, answers: 1 }
  if (operation !== 'generate') {
    let tokens: number | undefined
    for (const name of boundFields[operation] ?? []) tokens = larger(tokens, body?.[name])
    return { tokens, answers: Math.max(1, (operation === 'chat' ? larger(undefined, body?.['n']) : undefined) ?? 1) }
  }
  // Gemini accepts both spellings of every name, and numbers as strings.
  const configs = ['generationConfig', 'generation_config'].map((name) => fieldsOf(body?.[name]))
  let tokens: number | undefined
  let answers: number | undefined
  for (const config of configs) {
    tokens = larger(larger(tokens, config?.['maxOutputTokens']), config?.['max_output_tokens'])
    answers = larger(larger(answers, config?.['candidateCount']), config?.['candidate_count'])
  }
  return { tokens, answers: Math.max(1, answers ?? 1) }
}

/** The larger of what is known and of what a request says, where that is a number. JSON has numbers that are read as infinite. */
function larger(known: number | undefined, said: unknown): number | undefined {
  if (typeof said !== 'number' && (typeof said !== 'string' || said === '')) return known
  const value = Math.min(Number(said), Number.MAX_SAFE_INTEGER)
  if (!(value >= 0)) return known
  return known === undefined ? value : Math.max(known, value)
}

/** No answer is longer, whatever number a request asks for. What is estimated must be a number that can be recorded. */
const ANSWER_TOKENS_MAX = 1_000_000_000

const unknownPrice = (provider: string): AppError =>
  new AppError(
    'ERR_INVALID_INPUT',
    `model: its price is not known, so your limit on cost could not be enforced. The operator can set input_cost_per_million and output_cost_per_million for it at the provider '${provider}' in models.providers.`,
    { field: 'model', provider },
  )

const unknownContext = (provider: string): AppError =>
  new AppError(
    'ERR_INVALID_INPUT',
    `The request refers to input that it does not contain, and the context size of the model is not known, so your limit on cost could not be enforced. Send the input in the request, without documents and tools of the provider, or have the operator set context_window for the model at the provider '${provider}' in models.providers.`,
    { field: 'model', provider },
  )
