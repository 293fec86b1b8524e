import type { IncomingHttpHeaders } from 'node:http'

/**
 * Connection headers, headers that identify our caller, and credentials: an upstream gets none of them. It also gets no other statement of
 * how the body is encoded than that by which it was judged here.
 */
const notSent: ReadonlySet<string> = new Set([
  'accept-encoding',
  'api-key',
  'authorization',
  'cf-connecting-ip',
  'connection',
  'content-encoding',
  'content-length',
  'content-type',
  'cookie',
  'expect',
  'forwarded',
  'host',
  'keep-alive',
  'origin',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'referer',
  'te',
  'trailer',
  'transfer-encoding',
  'true-client-ip',
  'upgrade',
  'via',
  'x-api-key',
  'x-goog-api-key',
  'x-real-ip',
])
/** Also headers that only concern us or a proxy in front of us. */
const notSentPrefixes = ['x-castellan-', 'x-archestra-', 'x-forwarded-', 'sec-']

/** The account of a key. A caller without its own key may not choose it. */
const accountHeaders: ReadonlySet<string> = new Set(['openai-organization', 'openai-project', 'x-goog-user-project'])

export const isForwarded = (name: string): boolean =>
  !notSent.has(name) && !notSentPrefixes.some((prefix) => name.startsWith(prefix))

/** Alternating names and values. `keyHeaders` carry the upstream's key. */
export function headersToUpstream(
  headers: IncomingHttpHeaders,
  keyHeaders: readonly string[],
  bodyBytes: number | undefined,
  hasOwnKey: boolean,
): string[] {
  const sent: string[] = [...keyHeaders]
  for (const name in headers) {
    if (!isForwarded(name) || (!hasOwnKey && accountHeaders.has(name))) continue
    const value = headers[name]
    if (typeof value === 'string') sent.push(name, value)
    else for (const one of value ?? []) sent.push(name, one)
  }
  sent.push('accept-encoding', 'identity')
  if (bodyBytes !== undefined) sent.push('content-type', 'application/json', 'content-length', String(bodyBytes))
  return sent
}

/** Of an answer: headers of the connection, of the provider's own site, or for browsers. */
const notReturned: ReadonlySet<string> = new Set([
  'alt-svc',
  'connection',
  'keep-alive',
  'nel',
  'proxy-authenticate',
  'proxy-connection',
  'report-to',
  'set-cookie',
  'strict-transport-security',
  'trailer',
  'transfer-encoding',
  'upgrade',
])

/** Alternating names and values; the length stays if the bytes do. */
export function headersToClient(headers: IncomingHttpHeaders, keepsLength: boolean): string[] {
  const returned: string[] = []
  for (const name in headers) {
    if (notReturned.has(name) || name.startsWith('access-control-')) continue
    if (name === 'content-length' && !keepsLength) continue
    const value = headers[name]
    if (typeof value === 'string') returned.push(name, value)
    else for (const one of value ?? []) returned.push(name, one)
  }
  return returned
}
