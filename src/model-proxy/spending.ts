import { AppError } from '../contract/app-error.ts'
import type { CostReservation, UsageLimits, UsageSubject } from '../contract/usage-limits.ts'
import type { Caller, PricedProvider, ProxyFacts, Tokens } from './ports.ts'
import type { Prices } from './prices.ts'
import { fieldsOf, type Operation } from './protocols/protocol.ts'
import type { PreparedRequest } from './request-body.ts'
import { mayReason, NO_TOKENS, tokensIn } from './token-estimate.ts'

export type SpendingDeps = Readonly<{ limits: UsageLimits; prices: Prices; defaultOutputTokens: number }>

/** The money of one request: reserved before it is sent, and settled by its cost. */
export type Spending = Readonly<{
  /** The tokens of the reservation. */
  most: Pick<Tokens, 'input' | 'output'>
  /** The provider may bill more output than it shows. */
  mayReason: boolean
  /** Returns the cost in millionths of a dollar; null if unknown. Settles once. */
  settle(usedModel: string | null, tokens: Tokens | undefined): number | null
}>

/** Like `reserve`, for a request through the proxy. */
export function reserveFor(
  deps: SpendingDeps,
  upstream: PricedProvider,
  { caller, proxy }: Readonly<{ caller: Caller; proxy: ProxyFacts | undefined }>,
  { request, operation }: Readonly<{ request: PreparedRequest; operation: Operation }>,
  signal: () => AbortSignal,
): Spending | Promise<Spending> {
  const input = tokensIn(request.bytes?.length ?? 0)
  const output = outputTokensMax(operation, request.body) ?? deps.defaultOutputTokens
  const { body } = request
  const use = { subject: subjectOf(caller, proxy), model: request.model ?? '', most: { input, output }, body }
  return reserve(deps, upstream, use, signal)
}

/** The caller, the model, and the largest number of tokens. */
type ModelUse = Readonly<{
  subject: UsageSubject
  model: string
  most: Pick<Tokens, 'input' | 'output'>
  body?: PreparedRequest['body']
}>

export const reserveTokens = async (...args: Parameters<typeof reserve>): Promise<Spending> => reserve(...args)

/**
 * Rejects with ERR_LIMIT_EXCEEDED. A caller whose cost is limited cannot use a model without a known price: the limit could not
 * be enforced.
 */
function reserve(
  { limits, prices }: Pick<SpendingDeps, 'limits' | 'prices'>,
  upstream: PricedProvider,
  { subject, model, most, body }: ModelUse,
  signal: () => AbortSignal,
): Spending | Promise<Spending> {
  const input = Math.min(most.input, prices.contextOf(upstream, model) ?? most.input)
  const cost = prices.costOf(upstream, model, { ...NO_TOKENS, ...most, input })
  const { isPublic, protocol } = upstream
  const known = { most, mayReason: mayReason({ protocol: protocol.name, isPublic, model }, body) }
  const spending = (reservation: CostReservation): Spending => ({
    ...known,
    settle(usedModel, tokens) {
      const used = tokens ?? NO_TOKENS
      const paid = prices.costOf(upstream, usedModel ?? model, used) ?? prices.costOf(upstream, model, used)
      reservation.settle(paid ?? 0)
      return tokens === undefined ? null : (paid ?? null)
    },
  })
  if (cost === undefined) {
    const isLimited = limits.limitsCost(subject, model)
    const unpriced = (limited: boolean): Spending => {
      if (limited) throw unknownPrice(upstream.name)
      return { ...known, settle: () => null }
    }
    return isLimited instanceof Promise ? isLimited.then(unpriced) : unpriced(isLimited)
  }
  const reserved = limits.reserveCost(subject, model, cost, signal)
  return reserved instanceof Promise ? reserved.then(spending) : spending(reserved)
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

/** For all requested answers. If several fields set a bound, the largest counts. */
function outputTokensMax(operation: Operation, body: PreparedRequest['body']): number | undefined {
  if (operation === 'embeddings') return 0
  if (operation !== 'generate') {
    let most: number | undefined
    for (const name of boundFields[operation] ?? []) most = larger(most, body?.[name])
    return most && most * Math.max(1, (operation === 'chat' ? larger(undefined, body?.['n']) : undefined) ?? 1)
  }
  // Gemini accepts both spellings of every name, and numbers as strings.
  const configs = ['generationConfig', 'generation_config'].map((name) => fieldsOf(body?.[name]))
  let most: number | undefined
  let answers: number | undefined
  for (const config of configs) {
    most = larger(larger(most, config?.['maxOutputTokens']), config?.['max_output_tokens'])
    answers = larger(larger(answers, config?.['candidateCount']), config?.['candidate_count'])
  }
  return most && most * Math.max(1, answers ?? 1)
}

/** The larger of what is known and of what a request says, where that is a number. */
function larger(known: number | undefined, said: unknown): number | undefined {
  if (typeof said !== 'number' && (typeof said !== 'string' || said === '')) return known
  const value = Number(said)
  if (!(value >= 0)) return known
  return known === undefined ? value : Math.max(known, value)
}

const unknownPrice = (provider: string): AppError =>
  new AppError(
    'ERR_INVALID_INPUT',
    `model: its price is not known, so your limit on cost could not be enforced. The operator can set input_cost_per_million and output_cost_per_million for it at the provider '${provider}' in models.providers.`,
    { field: 'model', provider },
  )
