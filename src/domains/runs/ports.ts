/** Requests to addresses in a manifest; the adapter checks where they may lead. */
export type HttpSender = Readonly<{
  send(request: {
    url: string
    method: string
    headers: Readonly<Record<string, string>>
    body: string
    timeoutMs: number
    signal: AbortSignal
  }): Promise<Readonly<{ status: number; body: string }>>
}>

/** The values of a manifest's `secret:` and `config:`; undefined if not configured. */
export type SecretResolver = Readonly<{
  secret(name: string): string | undefined
  config(name: string): string | undefined
}>
