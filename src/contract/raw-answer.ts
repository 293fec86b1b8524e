export type ContentBlock = Readonly<Record<string, unknown>>

/**
 * The answer of a tool as MCP has it, from a tool that passes on what another server answered. Others wrote what is in it:
 * it goes to the caller as it is, and into no sentence of ours.
 */
export type RawAnswer = Readonly<{
  content: readonly ContentBlock[]
  structuredContent?: Readonly<Record<string, unknown>>
  isError?: boolean
  _meta?: Readonly<Record<string, unknown>>
}>
