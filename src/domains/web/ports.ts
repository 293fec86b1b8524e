/** One request and its answer: redirects are not followed, so that each can be checked. */
export type WebRequest = Readonly<{
  url: URL
  method: 'GET' | 'POST' | 'PUT' | 'PATCH'
  headers: Readonly<Record<string, string>>
  body?: string
  bytesMax: number
  signal: AbortSignal
  /** May lead to a private address: only for addresses that the operator configured. */
  trusted: boolean
}>
export type WebResponse = Readonly<{
  status: number
  location: string | undefined
  contentType: string | undefined
  retryAfter: string | undefined
  body: Buffer
}>

/**
 * The web. The connection goes to the checked address, whatever names resolve to a moment later. Failures are AppErrors; an
 * answer with any status is not a failure.
 */
export type WebClient = Readonly<{ send(request: WebRequest): Promise<WebResponse> }>

export type SearchResult = Readonly<{ title: string; url: string; snippet: string }>

/** Parses untrusted pages in another thread, with a time limit: its own, or that of the signal, which it throws. */
export type PageReader = Readonly<{
  /** Undefined if it cannot be converted. */
  toMarkdown(html: string, url: string, signal: AbortSignal): Promise<string | undefined>
  /** Undefined if the page has no results because the engine requires a person. */
  searchResults(html: string, signal: AbortSignal): Promise<readonly SearchResult[] | undefined>
}>
