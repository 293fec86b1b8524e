import type { Tokens } from '../ports.ts'

/** What a request is for. Everything else under a provider's address is refused. */
export type Operation = 'chat' | 'responses' | 'messages' | 'generate' | 'embeddings' | 'count_tokens' | 'models'

export type Endpoint = Readonly<{
  operation: Operation
  method: 'GET' | 'POST'
  /** Of the upstream, after its base path. */
  path: string
  /** Where the address says it; otherwise the body does. */
  model?: string
  isStream?: boolean
}>

/** Why a request is not passed on, in words that every provider has. */
export type Refusal = Readonly<{ status: number; code: string; message: string }>

/** How the answers of one operation tell what they cost. */
export type AnswerFormat = Readonly<{
  /** Bytes that are in every part of a stream which tells how many tokens there were. */
  usageMark: string
  /** From a whole answer, or from one event of a stream; undefined if it does not say. */
  readUsage(answer: unknown): PartialTokens | undefined
  readModel(answer: unknown): string | undefined
  /** The stream tells the number of tokens only if it is asked to. */
  asksForUsage?: true
  /** The first event of a stream has numbers before anything is written. */
  beginsWithUsage?: true
}>

/** What one event says; the numbers of later events replace those of earlier ones. */
export type PartialTokens = Partial<Tokens>

export type Protocol = Readonly<{
  name: 'openai' | 'anthropic' | 'gemini'
  /** Undefined for what is not passed on. `path` has no slash at its beginning. */
  find(method: string, path: string): Endpoint | undefined
  /** How an upstream is shown its key, as names and values in turn. */
  keyHeaders(key: string): readonly string[]
  formatOf(operation: Operation): AnswerFormat | undefined
  refusalText(refusal: Refusal): string
}>

type Fields = Readonly<Record<string, unknown>>
export const fieldsOf = (value: unknown): Fields | undefined =>
  typeof value === 'object' && value !== null ? (value as Fields) : undefined

/** A count of a provider; anything else is none. */
export const countOf = (value: unknown): number =>
  typeof value === 'number' && Number.isFinite(value) && value > 0 ? Math.round(value) : 0

export const textOf = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined)
