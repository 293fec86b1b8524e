/** Texts as vectors of equal length, in order. May reject for any reason; search then uses words. */
export type Embedder = Readonly<{
  /** Names the model: vectors of different models are not compared. */
  model: string
  embed(texts: readonly string[], signal: AbortSignal): Promise<readonly Float32Array[]>
}>
