import type { Endpoint } from '../protocols/protocol.ts'

/** Names in an answer in OpenAI's format, for any provider. */
export type Naming = Readonly<{
  id: string
  createdS: number
  /** `provider:model`, as the caller wrote it. */
  model: string
  /** The caller requested the usage at the end of a stream. */
  includeUsage: boolean
}>

/** One event of another provider's stream becomes none, one or several of OpenAI's. */
export type EventTranslator = Readonly<{ take(event: unknown): readonly object[]; finish(): readonly object[] }>

/** OpenAI's chat format over another provider's format. What the provider cannot do is refused by name, never dropped. */
export type Translation = Readonly<{
  /** Throws ERR_INVALID_INPUT. */
  toRequest(chat: Fields, model: string): Readonly<{ endpoint: Endpoint; body: Fields }>
  toAnswer(answer: unknown, naming: Naming): object
  toEvents(naming: Naming): EventTranslator
  toErrorMessage(answer: unknown): string | undefined
}>

export type Fields = Readonly<Record<string, unknown>>
