import { AppError } from '../contract/app-error.ts'
import type { CostReservation, UsageLimits, UsageSubject } from '../contract/usage-limits.ts'
import type { Caller, PricedProvider, ProxyFacts, Tokens } from './ports.ts'
import type { Prices } from './prices.ts'
import { fieldsOf, type Operation } from './protocols/protocol.ts'
import type { PreparedRequest } from './request-body.ts'
import { mayReason, NO_TOKENS, tokensIn } from './token-estimate.ts'

export type SpendingDeps = Readonly<{ limits: UsageLimits; prices: Prices; defaultOutputTokens: number }>

/** The money of one request: set aside before it is sent, and settled by what it cost. */
export type Spending = Readonly<{
  /** For which money was set aside. */
  most: Pick<Tokens, 'input' | 'output'>
  /** The provider may bill more output than it shows. */
  mayReason: boolean
  /** Answers what it cost, in millionths of a dollar; null if nobody knows. Settles once. */
  settle(usedModel: string | null, tokens: Tokens | undefined): number | null
}>

/** As `reserve` does, for a request that passes through the proxy. */
export function reserveFor(
  deps: SpendingDeps,
  upstream: PricedProvider,
  { caller, proxy }: Readonly<{ caller: Caller; proxy: ProxyFacts | undefined }>,
  { request, operation }: Readonly<{ request: PreparedRequest; operation: Operation }>,
  signal: AbortSignal,
): Spending | Promise<Spending> {
  const input = tokensIn(request.bytes?.length ?? 0)
  const output = outputTokensMax(operation, request.body) ?? deps.defaultOutputTokens
  const { body } = request
  const use = { subject: subjectOf(caller, proxy), model: request.model ?? '', most: { input, output }, body }
  return reserve(deps, upstream, use, signal)
}

/** Who uses which model, and how many tokens at most. */
export type ModelUse = Readonly<{
  subject: UsageSubject
  model: string
  most: Pick<Tokens, 'input' | 'output'>
  body?: PreparedRequest['body']
}>

export const reserveTokens = async (...args: Parameters<typeof reserve>): Promise<Spending> => reserve(...args)

/**
 * Rejects with ERR_LIMIT_EXCEEDED. A model whose price is not known is refused to a caller whose cost is limited: the limit could not
 * be kept.
 */
function reserve(
  { limits, prices }: Pick<SpendingDeps, 'limits' | 'prices'>,
  upstream: PricedProvider,
  { subject, model, most, body }: ModelUse,
  signal: AbortSignal,
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

function subjectOf({ principal, virtualKey }: Caller, proxy: ProxyFacts | undefined): UsageSubject {
  return {
    tenant: principal.tenant,
    ...(principal.user !== undefined && { user: principal.user }),
    teams: principal.teams,
    profiles: [principal.agent, proxy?.id].filter((id) => id !== undefined),
    ...(virtualKey !== undefined && { virtualKey }),
  }
}

/** Providers ignore the fields of each other's formats, so those bound nothing. An embedding writes nothing. */
const boundFields: Readonly<Partial<Record<Operation, readonly string[]>>> = {
  chat: ['max_completion_tokens', 'max_tokens'],
  responses: ['max_output_tokens'],
  messages: ['max_tokens'],
}

/** For all answers that were asked for. Where a request says it in several ways, the most counts. */
function outputTokensMax(operation: Operation, body: PreparedRequest['body']): number | undefined {
  if (operation === 'embeddings') return 0
  if (operation !== 'generate') {
    const most = largest((boundFields[operation] ?? []).map((name) => body?.[name]))
    return most && most * Math.max(1, largest([operation === 'chat' ? body?.['n'] : 1]) ?? 1)
  }
  // Gemini takes both spellings of every name, and numbers as text.
  const configs = ['generationConfig', 'generation_config'].map((name) => fieldsOf(body?.[name]))
  const most = largest(configs.flatMap((config) => [config?.['maxOutputTokens'], config?.['max_output_tokens']]))
  const answers = largest(configs.flatMap((config) => [config?.['candidateCount'], config?.['candidate_count']]))
  return most && most * Math.max(1, answers ?? 1)
}

function largest(values: readonly unknown[]): number | undefined {
  const numbers = values
    .filter((value) => typeof value === 'number' || (typeof value === 'string' && value !== ''))
    .map(Number)
    .filter((value) => value >= 0)
  return numbers.length === 0 ? undefined : Math.max(...numbers)
}

const unknownPrice = (provider: string): AppError =>
  new AppError(
    'ERR_INVALID_INPUT',
    `model: its price is not known, so your limit on cost could not be kept. The operator can set input_cost_per_million and output_cost_per_million for it at the provider '${provider}' in models.providers.`,
    { field: 'model', provider },
  )
