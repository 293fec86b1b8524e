import type { Decision } from './decision.ts'
import type { ModelTokens } from './model-tokens.ts'
import type { TenantId } from './principal.ts'

export const interactionSources = ['proxy', 'agent', 'sanitiser'] as const
/** What asked: a program through the model proxy, a run of an agent, or this server itself, to sanitise a result. */
export type InteractionSource = (typeof interactionSources)[number]

export const interactionOutcomes = ['ok', 'failed', 'cut_off', 'refused'] as const
/** `cut_off`: it ended before the answer was complete. `refused`: we did not send it. */
export type InteractionOutcome = (typeof interactionOutcomes)[number]

/** What the caller says of itself. None of it is proof of anything. */
export type InteractionLabels = Readonly<{ session?: string; agent?: string; user?: string; run?: string }>

/** W3C trace context of the caller, in hexadecimal digits. */
export type TraceParent = Readonly<{ traceId: string; spanId: string }>

/** One request to a language model, as it ended. */
export type Interaction = Readonly<{
  tenant: TenantId
  /** Whose it is: the identity of the caller, or of the caller that started the agent. */
  owner: string
  actor: string
  authenticatedBy: string
  userId: string | null
  keyId: string | null
  virtualKeyId: string | null
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
  /** The model that answered, as the provider names it. */
  usedModel: string | null
  isStream: boolean
  outcome: InteractionOutcome
  httpStatus: number | null
  errorCode: string | null
  /** Null where nobody knows: the request was not answered. */
  tokens: ModelTokens | null
  /** The provider did not say: this is reckoned from what passed. */
  isEstimated: boolean
  /** In millionths of a dollar; null where the price is not known. */
  costMicrodollars: number | null
  startedAtMs: number
  firstTokenMs: number | null
  durationMs: number
  requestBytes: number
  answerBytes: number
  decisions: readonly Decision[]
  labels: InteractionLabels
  traceParent?: TraceParent | undefined
}>

/** As they were sent and received. */
export type InteractionBodies = Readonly<{ request: Buffer | undefined; answer: Buffer | undefined }>

/** Takes every request to a model as it ends. */
export type InteractionSink = Readonly<{
  add(interaction: Interaction, bodies: InteractionBodies): void
  /** Whether bodies are wanted at all. */
  keepsBodies: boolean
  /** Resolves when another request may be taken; undefined while there is space. */
  space(): Promise<void> | undefined
}>
