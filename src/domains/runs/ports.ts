/** Requests to addresses that a manifest names; where they may lead is the adapter's to check. */
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

/** What a manifest's `secret:` and `config:` values stand for; undefined when nobody said. */
export type SecretResolver = Readonly<{
  secret(name: string): string | undefined
  config(name: string): string | undefined
}>
