import type { ModelTokens } from '../contract/model-tokens.ts'
import type { RequestShape, RuleName } from '../contract/optimization-rules.ts'
import type { ProviderKeyScope } from '../contract/provider-keys.ts'
import type { ModelAnswer, ModelErrorClass, ModelRequest } from '../domains/executions/model.ts'

export const providerTypes = ['openai', 'anthropic', 'gemini', 'ollama', 'openai-compatible'] as const
export type ProviderType = (typeof providerTypes)[number]

export type ModelSettings = Readonly<{
  alias: string
  model: string
  maxOutputTokens: number | null
  temperature: number | null
  /** Dollars for a million tokens; null if unknown. */
  inputCost: number | null
  outputCost: number | null
  /** Null for the price of what is read otherwise. */
  cacheReadCost?: number | null
  cacheWriteCost?: number | null
  /** In tokens; null if not configured. */
  contextWindow?: number | null
}>
export type ProviderSettings = Readonly<{
  name: string
  type: ProviderType
  endpoint: string | null
  /** The key itself, from the environment. */
  apiKey: string | null
  /** Where the key should have been, if that is not set: only those who have a key of their own can use the provider. */
  unsetVariable?: string | undefined
  /** Whether answers are streamed; not every compatible server can do that. */
  isStreamed: boolean
  models: readonly ModelSettings[]
}>
export type ModelsSettings = Readonly<{
  providers: readonly ProviderSettings[]
  defaultProvider: string | null
  fallbackProvider: string | null
  retriesMax: number
  retryDelayMs: number
  overallTimeoutMs: number
}>

/** Ollama uses OpenAI's protocol below `/v1`. */
export function compatibleUrl({ type, endpoint }: ProviderSettings): string {
  const url = (endpoint ?? 'http://127.0.0.1:11434').replace(/\/+$/, '')
  return type === 'ollama' && !url.endsWith('/v1') ? `${url}/v1` : url
}

/** Whether nobody answers there without a key: an address of the public three. Others are the operator's to say. */
export const requiresKey = ({
  type,
  endpoint,
  unsetVariable,
}: Pick<ProviderSettings, 'type' | 'endpoint' | 'unsetVariable'>): boolean =>
  unsetVariable !== undefined || (endpoint === null && (type === 'openai' || type === 'anthropic' || type === 'gemini'))

/**
 * The names under which keys for a provider may be stored: its own, and that of its type for the first of the type, unless another
 * has that name.
 */
export function keyNamesOf(providers: readonly ProviderSettings[], provider: ProviderSettings): readonly string[] {
  const { name, type } = provider
  const isMeant = providers.find((other) => other.type === type) === provider
  const isTaken = providers.some((other) => other.name === type)
  return isMeant && !isTaken ? [name, type] : [name]
}

/** One attempt with one model. */
export type Candidate = Readonly<{ provider: ProviderSettings; model: ModelSettings }>
export type Ask = (
  candidate: Candidate,
  request: ModelRequest,
  signal: AbortSignal,
  /** What the request goes through. */
  fetch: typeof globalThis.fetch,
) => Promise<Omit<ModelAnswer, 'failures' | 'usage'>>

/** The cost of one attempt. Undefined tokens: it was not answered. A cost of null: the price is unknown. */
type TryCost = Readonly<{ tokens: ModelTokens | undefined; costUsd: number | null }>

/** The model that the alias has, where a rule chose another. */
export type ReplacedModel = Readonly<{
  model: string
  rule: Readonly<{ id: RuleName['id'] | null; name: string }>
  /** Its provider, where a rule chose a cheaper model, and not a failure another. */
  cheaperThan: ProviderSettings | null
}>

/** Of the operator: a model that is asked instead, or after others failed. */
export type RoutedModel = Readonly<{
  target: Readonly<{ provider: string; model: string }>
  rule: ReplacedModel['rule']
}>
/** The first is asked instead of the model of the alias, undefined for that model itself; the others in turn if it fails. */
export type ModelRouting = (requested: RequestShape) => Promise<readonly (RoutedModel | undefined)[]>

/** Money is reserved before each attempt, and settled and recorded after it. */
export type ModelAccounting = Readonly<{
  /** Rejects with ERR_LIMIT_EXCEEDED, or with ERR_RATE_LIMITED if others have only reserved the rest of a limit. */
  begin(
    candidate: Candidate,
    request: ModelRequest,
    signal: AbortSignal,
    /** Whose key the provider is shown, null for none, and which model it would be without a rule. */
    chosen: Readonly<{ keyScope: ProviderKeyScope | null; replaced?: ReplacedModel | undefined }>,
  ): Promise<
    Readonly<{
      fetch: typeof globalThis.fetch
      /** Settles once, however the attempt ended. `cut_off`: we ended it. */
      end(outcome: 'ok' | 'failed' | 'cut_off', errorClass: ModelErrorClass | null): TryCost
    }>
  >
}>

/** Why one attempt failed. */
export class TryFailure extends Error {
  override name = 'TryFailure'
  readonly errorClass: ModelErrorClass
  readonly status: number | null
  /** When the provider says to retry. */
  readonly retryAfterMs: number | null

  constructor(errorClass: ModelErrorClass, status: number | null, retryAfterMs: number | null, cause?: unknown) {
    super(errorClass, { cause })
    this.errorClass = errorClass
    this.status = status
    this.retryAfterMs = retryAfterMs
  }
}
