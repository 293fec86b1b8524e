/** One request and its answer: no redirect is followed, so that each can be judged. */
export type WebRequest = Readonly<{
  url: URL
  method: 'GET' | 'POST' | 'PUT' | 'PATCH'
  headers: Readonly<Record<string, string>>
  body?: string
  bytesMax: number
  signal: AbortSignal
  /** May lead to a private address: only for what the operator configured. */
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
 * The web. The address that is connected to is the one that was judged, whatever names say a moment later. Failures are
 * AppErrors; an answer with any status is none.
 */
export type WebClient = Readonly<{ send(request: WebRequest): Promise<WebResponse> }>

export type SearchResult = Readonly<{ title: string; url: string; snippet: string }>

/** Reads what others wrote, away from the main thread and with an end: its own, or that of the signal, which it throws. */
export type PageReader = Readonly<{
  /** Undefined when nothing can be made of it. */
  toMarkdown(html: string, url: string, signal: AbortSignal): Promise<string | undefined>
  /** Undefined when the page has no results because the engine wants to see a person. */
  searchResults(html: string, signal: AbortSignal): Promise<readonly SearchResult[] | undefined>
}>
