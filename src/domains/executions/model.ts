import { AppError } from '../../contract/app-error.ts'
import type { Principal } from '../../contract/principal.ts'
import type { Json } from '../../kernel/canonical-json.ts'

/** A language model, as the loop sees it: an alias of the configuration, never a provider. */
export type ModelToolCall = Readonly<{
  id: string
  name: string
  arguments: Json
  /** What the provider wants to have back with the call; nobody else looks into it. */
  opaque?: Json
}>
export type ModelMessage =
  | Readonly<{ role: 'user'; text: string }>
  | Readonly<{ role: 'assistant'; text: string; toolCalls: readonly ModelToolCall[] }>
  | Readonly<{ role: 'tool'; callId: string; name: string; text: string; isError: boolean }>

export type ModelRequest = Readonly<{
  alias: string
  /** Who asks, and pays: an agent, or a caller for whom this server asks. */
  principal: Principal
  purpose: 'agent' | 'sanitiser'
  system: string | null
  messages: readonly ModelMessage[]
  /** With their documented names; what a provider cannot take is the adapter's to translate, both ways. */
  tools: readonly Readonly<{
    name: string
    description: string
    inputSchema: Readonly<Record<string, unknown>>
  }>[]
  temperature: number | null
  maxOutputTokens: number | null
  /** Of one try. */
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
  /** Tries that failed before this answer came. */
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
  /** Throws ERR_MODEL_UNAVAILABLE, which says what to set, when the alias leads to no model. */
  requireAlias(alias: string): void
  /**
   * Throws an AppError: ERR_MODEL_UNAVAILABLE when the alias leads to no model, ERR_MODEL_REFUSED for what another try would
   * not change, ERR_LIMIT_EXCEEDED when a limit on cost does not allow it, ERR_MODEL_FAILED for the rest.
   * `details.error_class` and `details.failures` tell more.
   */
  generate(request: ModelRequest): Promise<ModelAnswer>
}>

export const failuresOf = (error: AppError): readonly ModelFailure[] =>
  (error.details['failures'] as readonly ModelFailure[] | undefined) ?? []

export function hasModel(models: Pick<Models, 'requireAlias'>, alias: string): boolean {
  try {
    models.requireAlias(alias)
    return true
  } catch (error) {
    if (error instanceof AppError) return false
    throw error
  }
}

/** For agents that come with the program: the alias that suits them best, or the default where that is not set. */
export function chosenAlias(models: Pick<Models, 'requireAlias'>, wanted: string): string {
  if (hasModel(models, wanted)) return wanted
  if (hasModel(models, 'default')) return 'default'
  models.requireAlias(wanted)
  return wanted
}
