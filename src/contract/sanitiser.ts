import type { Principal } from './principal.ts'

export type SanitiseRequest = Readonly<{
  /** For whom models are asked, and who pays. */
  principal: Principal
  /** What decided that the result is sanitised, with its version: another decision is another summary. */
  decision: string
  /** The result, as text. Only a quarantined model sees it. */
  result: string
  /** What the person or agent wants, in words that are trusted. */
  purpose: string | null
  signal: AbortSignal
}>

/** A summary in which no word of the result can be. `rounds` is how many questions were asked about it. */
export type Sanitised = Readonly<{ text: string; rounds: number; isCached: boolean }>

export type Sanitiser = Readonly<{
  /** Rejects when a model fails: then nothing of the result may be shown. */
  sanitise(request: SanitiseRequest): Promise<Sanitised>
  /** Throws ERR_MODEL_UNAVAILABLE when there is no model to ask. */
  requireModels(): void
}>
