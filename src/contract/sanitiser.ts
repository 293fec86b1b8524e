import type { Principal } from './principal.ts'

export type SanitiseRequest = Readonly<{
  /** The caller on whose behalf models are called, and who pays. */
  principal: Principal
  /** The decision to sanitise, with its version: another decision gives another summary. */
  decision: string
  /** The result, as text. Only a quarantined model sees it. */
  result: string
  /** The purpose of the person or agent, in trusted words. */
  purpose: string | null
  signal: AbortSignal
}>

/** A summary that cannot contain any word of the result. `rounds` is the number of questions asked. */
export type Sanitised = Readonly<{ text: string; rounds: number; isCached: boolean }>

export type Sanitiser = Readonly<{
  /** Rejects when a model fails: then nothing of the result may be shown. */
  sanitise(request: SanitiseRequest): Promise<Sanitised>
  /** Throws ERR_MODEL_UNAVAILABLE when there is no model to ask. */
  requireModels(): void
}>
