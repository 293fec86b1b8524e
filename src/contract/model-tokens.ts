/** What one request to a model read and wrote. */
export type ModelTokens = Readonly<{
  /** All that was read, what came from the cache or went into it included. */
  input: number
  output: number
  cacheRead: number
  cacheWrite: number
  /** A part of `output`. */
  reasoning: number
}>
