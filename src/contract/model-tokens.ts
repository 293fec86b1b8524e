/** Tokens of one request to a model. */
export type ModelTokens = Readonly<{
  /** All input tokens, including cache reads and writes. */
  input: number
  output: number
  cacheRead: number
  cacheWrite: number
  /** A part of `output`. */
  reasoning: number
}>
