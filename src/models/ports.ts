import type { ModelTokens } from '../contract/model-tokens.ts'
import type { ModelAnswer, ModelErrorClass, ModelRequest } from '../domains/executions/model.ts'

export const providerTypes = ['openai', 'anthropic', 'gemini', 'ollama', 'openai-compatible'] as const
export type ProviderType = (typeof providerTypes)[number]

export type ModelSettings = Readonly<{
  alias: string
  model: string
  maxOutputTokens: number | null
  temperature: number | null
  /** Dollars for a million tokens; null when nobody said. */
  inputCost: number | null
  outputCost: number | null
  /** Null for the price of what is read otherwise. */
  cacheReadCost?: number | null
  cacheWriteCost?: number | null
}>
export type ProviderSettings = Readonly<{
  name: string
  type: ProviderType
  endpoint: string | null
  /** The key itself, from the environment. */
  apiKey: string | null
  /** Whether answers come in parts; not every server that speaks a provider's protocol can do that. */
  isStreamed: boolean
  models: readonly ModelSettings[]
}>
export type ModelsSettings = Readonly<{
  providers: readonly ProviderSettings[]
  /** Those whose key is in a variable that is not set. */
  disabled?: readonly Readonly<{ name: string; variable: string; aliases: readonly string[] }>[]
  defaultProvider: string | null
  fallbackProvider: string | null
  retriesMax: number
  retryDelayMs: number
  overallTimeoutMs: number
}>

/** Ollama speaks OpenAI's protocol below `/v1`. */
export function compatibleUrl({ type, endpoint }: ProviderSettings): string {
  const url = (endpoint ?? 'http://127.0.0.1:11434').replace(/\/+$/, '')
  return type === 'ollama' && !url.endsWith('/v1') ? `${url}/v1` : url
}

/** One try with one model. */
export type Candidate = Readonly<{ provider: ProviderSettings; model: ModelSettings }>
export type Ask = (
  candidate: Candidate,
  request: ModelRequest,
  signal: AbortSignal,
  /** What the request goes through. */
  fetch: typeof globalThis.fetch,
) => Promise<Omit<ModelAnswer, 'failures' | 'usage'>>

/** What one try cost. Undefined tokens: it was not answered. A cost of null: the price is not known. */
export type TryCost = Readonly<{ tokens: ModelTokens | undefined; costUsd: number | null }>

/** Money is set aside before each try, and what it cost is settled and noted after it. */
export type ModelAccounting = Readonly<{
  /** Rejects with ERR_LIMIT_EXCEEDED. */
  begin(
    candidate: Candidate,
    request: ModelRequest,
    signal: AbortSignal,
  ): Promise<
    Readonly<{
      fetch: typeof globalThis.fetch
      /** Settles once, however the try ended. `cut_off`: we ended it. */
      end(outcome: 'ok' | 'failed' | 'cut_off', errorClass: ModelErrorClass | null): TryCost
    }>
  >
}>

/** Why one try failed. */
export class TryFailure extends Error {
  override name = 'TryFailure'
  readonly errorClass: ModelErrorClass
  readonly status: number | null
  /** When the provider says that another try makes sense. */
  readonly retryAfterMs: number | null

  constructor(errorClass: ModelErrorClass, status: number | null, retryAfterMs: number | null, cause?: unknown) {
    super(errorClass, { cause })
    this.errorClass = errorClass
    this.status = status
    this.retryAfterMs = retryAfterMs
  }
}
