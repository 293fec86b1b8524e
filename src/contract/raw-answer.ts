export type ContentBlock = Readonly<Record<string, unknown>>

/**
 * The answer of a tool in MCP's format, from a tool that forwards another server's answer. Its text is untrusted: it goes to the
 * caller unchanged, and never into our own messages.
 */
export type RawAnswer = Readonly<{
  content: readonly ContentBlock[]
  structuredContent?: Readonly<Record<string, unknown>>
  isError?: boolean
  _meta?: Readonly<Record<string, unknown>>
}>
