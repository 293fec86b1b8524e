import { AppError } from '../../contract/app-error.ts'
import type { Principal } from '../../contract/principal.ts'
import type { Json } from '../../kernel/canonical-json.ts'

/** A language model for the loop, by an alias of the configuration, never by its provider. */
export type ModelToolCall = Readonly<{
  id: string
  name: string
  arguments: Json
  /** Opaque data that the provider expects back with the call. */
  opaque?: Json
}>
export type ModelMessage =
  | Readonly<{ role: 'user'; text: string }>
  | Readonly<{ role: 'assistant'; text: string; toolCalls: readonly ModelToolCall[] }>
  | Readonly<{ role: 'tool'; callId: string; name: string; text: string; isError: boolean }>

export type ModelRequest = Readonly<{
  alias: string
  /** The caller that pays: an agent, or a caller for whom this server asks. */
  principal: Principal
  purpose: 'agent' | 'sanitiser'
  system: string | null
  messages: readonly ModelMessage[]
  /** With their documented names. The adapter translates names that a provider does not accept, in both directions. */
  tools: readonly Readonly<{
    name: string
    description: string
    inputSchema: Readonly<Record<string, unknown>>
  }>[]
  temperature: number | null
  maxOutputTokens: number | null
  /** Per attempt. */
  timeoutMs: number
  signal: AbortSignal
}>

type ModelUsage = Readonly<{ inputTokens: number; outputTokens: number; costUsd: number | null }>
export type ModelAnswer = Readonly<{
  text: string
  toolCalls: readonly ModelToolCall[]
  usage: ModelUsage
  provider: string
  model: string
  finishReason: string
  /** Attempts that failed before this answer. */
  failures: readonly ModelFailure[]
}>

const modelErrorClasses = [
  'authentication',
  'rate_limit',
  'model_not_found',
  'invalid_input',
  'service_unavailable',
  'network',
  'provider',
  'timeout',
] as const
export type ModelErrorClass = (typeof modelErrorClasses)[number]
export type ModelFailure = Readonly<{
  provider: string
  model: string
  error_class: ModelErrorClass
  status: number | null
}>

export type Models = Readonly<{
  aliases(): readonly string[]
  /** Throws ERR_MODEL_UNAVAILABLE, which says what to configure, if the alias has no model. */
  requireAlias(alias: string): void
  /**
   * Throws an AppError: ERR_MODEL_UNAVAILABLE if the alias has no model, ERR_MODEL_REFUSED for a permanent error,
   * ERR_LIMIT_EXCEEDED if a limit on cost does not allow it, ERR_RATE_LIMITED if others reserve the rest of it for as long as the
   * request may take, ERR_MODEL_FAILED for the rest. `details.error_class` and
   * `details.failures` have more.
   */
  generate(request: ModelRequest): Promise<ModelAnswer>
}>

export const failuresOf = (error: AppError): readonly ModelFailure[] =>
  (error.details['failures'] as readonly ModelFailure[] | undefined) ?? []

export const hasModel = (models: Pick<Models, 'requireAlias'>, alias: string): boolean =>
  problemOfModel(models, alias) === undefined

/** Why the alias has no model, and what to configure; undefined if it has one. */
export function problemOfModel(models: Pick<Models, 'requireAlias'>, alias: string): string | undefined {
  try {
    models.requireAlias(alias)
    return undefined
  } catch (error) {
    if (error instanceof AppError) return error.message
    throw error
  }
}

/** For shipped agents: the alias that suits them best, or the default if it is not configured. */
export function chosenAlias(models: Pick<Models, 'requireAlias'>, requested: string): string {
  if (hasModel(models, requested)) return requested
  if (hasModel(models, 'default')) return 'default'
  models.requireAlias(requested)
  return requested
}
