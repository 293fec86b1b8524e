import type { TokenKind, TokenKinds, Tokens } from '../ports.ts'

/** The operation of a request. Everything else under a provider's address is refused. */
export type Operation = 'chat' | 'responses' | 'messages' | 'generate' | 'embeddings' | 'count_tokens' | 'models'

export type Endpoint = Readonly<{
  operation: Operation
  method: 'GET' | 'POST'
  /** Of the upstream, after its base path. */
  path: string
  /** If the address contains it; otherwise the body does. */
  model?: string
  isStream?: boolean
}>

/** Why a request is not forwarded, in terms that every provider has. */
export type Refusal = Readonly<{
  status: number
  code: string
  message: string
  /** For programs: which limit, what is left, when it resets. Packages of providers ignore members that they do not know. */
  details?: Readonly<Record<string, unknown>>
}>

/** The member with our own error, beside those of the provider's format. */
export const ownError = ({ code, details }: Pick<Refusal, 'code' | 'details'>) => ({
  castellan: { code, details: details ?? {} },
})

/** How the answers of one operation report their tokens. */
export type AnswerFormat = Readonly<{
  /** A byte sequence in every part of a stream that reports tokens. */
  usageMark: string
  /** From a whole answer, or from one event of a stream; undefined if it does not say. */
  readUsage(answer: unknown): PartialTokens | undefined
  readModel(answer: unknown): string | undefined
  /** The provider is still to write the answer, or a part of it. */
  isUnfinished?(answer: unknown): boolean
  /** The stream reports tokens only if requested. */
  asksForUsage?: true
  /** The first event of a stream has numbers before anything is written. */
  beginsWithUsage?: true
}>

/** The numbers of one event; later events replace those of earlier ones. Undefined is one that was reported and cannot be read. */
export type PartialTokens = Partial<Omit<Tokens, 'input' | 'output'>> &
  Readonly<{ input?: number | undefined; output?: number | undefined }>

export type Protocol = Readonly<{
  name: 'openai' | 'anthropic' | 'gemini'
  /** Undefined for an operation that is not forwarded. `path` has no leading slash. */
  find(method: string, path: string): Endpoint | undefined
  /** What `find` knows, for people. */
  operations: readonly string[]
  /** The headers with an upstream's key, as alternating names and values. */
  keyHeaders(key: string): readonly string[]
  formatOf(operation: Operation): AnswerFormat | undefined
  refusalText(refusal: Refusal): string
}>

export type Fields = Readonly<Record<string, unknown>>
export const fieldsOf = (value: unknown): Fields | undefined =>
  typeof value === 'object' && value !== null ? (value as Fields) : undefined

/** A provider's count; 0 for anything else. */
export const countOf = (value: unknown): number => readCount(value) ?? 0

/** A provider's count; undefined for anything else. What is not known must not count as nothing. */
export const readCount = (value: unknown): number | undefined =>
  typeof value === 'number' && value >= 0 && value <= Number.MAX_SAFE_INTEGER ? Math.round(value) : undefined

/** Counts of tokens that may have a price of their own. One that is reported and cannot be read is taken for all there are. */
export function kindsOf(said: Readonly<Partial<Record<TokenKind, unknown>>>): Readonly<{ kinds?: TokenKinds }> {
  const counted = Object.entries(said)
    .filter(([, value]) => value !== undefined && value !== null && value !== 0)
    .map(([kind, value]) => [kind, readCount(value) ?? Number.MAX_SAFE_INTEGER])
  return counted.length === 0 ? {} : { kinds: Object.fromEntries(counted) as TokenKinds }
}

export const textOf = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined)
