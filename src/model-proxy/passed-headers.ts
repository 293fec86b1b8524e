import type { IncomingHttpHeaders } from 'node:http'

/** What belongs to one connection, says who calls us, or is a credential: an upstream gets none of it. */
const notSent: ReadonlySet<string> = new Set([
  'accept-encoding',
  'api-key',
  'authorization',
  'cf-connecting-ip',
  'connection',
  'content-length',
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
/** Also those that only mean something to us or to a proxy before us. */
const notSentPrefixes = ['x-castellan-', 'x-archestra-', 'x-forwarded-', 'sec-']

/** Which account a key is used for. Who brings no key has no say in that. */
const accountHeaders: ReadonlySet<string> = new Set(['openai-organization', 'openai-project', 'x-goog-user-project'])

export const isSentOn = (name: string): boolean =>
  !notSent.has(name) && !notSentPrefixes.some((prefix) => name.startsWith(prefix))

/** As names and values in turn. `keyHeaders` show the upstream its key. */
export function headersToUpstream(
  headers: IncomingHttpHeaders,
  keyHeaders: readonly string[],
  bodyBytes: number | undefined,
  hasOwnKey: boolean,
): string[] {
  const sent: string[] = [...keyHeaders]
  for (const name in headers) {
    if (!isSentOn(name) || (!hasOwnKey && accountHeaders.has(name))) continue
    const value = headers[name]
    if (typeof value === 'string') sent.push(name, value)
    else for (const one of value ?? []) sent.push(name, one)
  }
  sent.push('accept-encoding', 'identity')
  if (bodyBytes !== undefined) sent.push('content-length', String(bodyBytes))
  return sent
}

/** Of an answer: what belongs to the connection, to the provider's own site, or to the browsers that may read it. */
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

/** As names and values in turn; the length stays if the bytes do. */
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
