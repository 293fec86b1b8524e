import type { Decision } from './decision.ts'
import type { ModelTokens } from './model-tokens.ts'
import type { TenantId } from './principal.ts'
import type { ProviderKeyScope } from './provider-keys.ts'

export const interactionSources = ['proxy', 'agent', 'sanitiser'] as const
/** The source of a request: a program through the model proxy, a run of an agent, or this server itself, to sanitise a result. */
export type InteractionSource = (typeof interactionSources)[number]

export const interactionOutcomes = ['ok', 'failed', 'cut_off', 'refused'] as const
/** `cut_off`: the answer ended before it was complete. `refused`: the request was not sent. */
export type InteractionOutcome = (typeof interactionOutcomes)[number]

/** The caller's statements about itself. They prove nothing. */
export type InteractionLabels = Readonly<{ session?: string; agent?: string; user?: string; run?: string }>

/** W3C trace context of the caller, in hexadecimal digits. */
export type TraceParent = Readonly<{ traceId: string; spanId: string }>

/** One completed request to a language model. */
export type Interaction = Readonly<{
  tenant: TenantId
  /** The identity of the caller, or of the caller that started the agent. */
  owner: string
  actor: string
  authenticatedBy: string
  userId: string | null
  keyId: string | null
  virtualKeyId: string | null
  /** Whose key the provider was shown; null for none, and undefined where that was not noted. */
  providerKeyScope?: ProviderKeyScope | null
  teams: readonly string[]
  source: InteractionSource
  proxyId: string | null
  agentId: string | null
  runId: string | null
  provider: string
  /** The protocol that the provider speaks. */
  protocol: 'openai' | 'anthropic' | 'gemini'
  operation: string
  requestedModel: string | null
  /** The rule that replaced the requested model. One of the configuration has no id. */
  rule?: Readonly<{ id: string | null; name: string }> | null
  /** The model that answered, as the provider names it. */
  usedModel: string | null
  isStream: boolean
  outcome: InteractionOutcome
  httpStatus: number | null
  errorCode: string | null
  /** Null if unknown, because the request was not answered. */
  tokens: ModelTokens | null
  /** The provider did not report its tokens: they are estimated from what passed. */
  isEstimated: boolean
  /** In billionths of a dollar; null where the price is not known. */
  costNanodollars: number | null
  /** What the requested model would have cost more; null where no rule replaced it, or a price is not known. */
  savedNanodollars?: number | null
  startedAtMs: number
  firstTokenMs: number | null
  durationMs: number
  requestBytes: number
  answerBytes: number
  decisions: readonly Decision[]
  labels: InteractionLabels
  traceParent?: TraceParent | undefined
}>

/** The bytes as sent and received. */
export type InteractionBodies = Readonly<{ request: Buffer | undefined; answer: Buffer | undefined }>

/** Receives every request to a model when it ends. */
export type InteractionSink = Readonly<{
  add(interaction: Interaction, bodies: InteractionBodies): void
  /** Whether bodies are stored at all. */
  keepsBodies: boolean
  /** Resolves when another request can be accepted; undefined while there is space. */
  space(): Promise<void> | undefined
}>
