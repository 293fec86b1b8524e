import type { IncomingHttpHeaders } from 'node:http'
import { REDACTED } from './key-mask.ts'

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

/** Of an answer: what packages and programs read. Nothing that a browser would obey on our origin, and none of our own names. */
const returnedNames: ReadonlySet<string> = new Set([
  'apim-request-id',
  'cache-control',
  'cf-ray',
  'content-encoding',
  'content-language',
  'date',
  'etag',
  'request-id',
  'retry-after',
  'retry-after-ms',
  'server-timing',
  'x-envoy-upstream-service-time',
  'x-models-etag',
  'x-reasoning-included',
  'x-request-id',
  'x-should-retry',
])
const returnedPrefixes = [
  ...['anthropic-', 'azureml-', 'openai-', 'ratelimit', 'x-codex-', 'x-gemini-', 'x-goog-', 'x-groq-', 'x-litellm-'],
  ...['x-ms-', 'x-openai-', 'x-openrouter-', 'x-ratelimit-'],
]
const isReturned = (name: string): boolean =>
  returnedNames.has(name) || returnedPrefixes.some((prefix) => name.startsWith(prefix))

const TYPES =
  /^(?:application\/(?:[\w.-]+\+)?json|text\/event-stream|audio\/[\w.-]+|image\/(?:png|jpeg|gif|webp))(?: *;[^,]*)?$/i
const OTHER_TYPE = 'application/octet-stream'
const UNSENDABLE = /[^\t\x20-\x7e\x80-\xff]/

/** Whatever a provider sends, a browser shows none of it as a page of ours. */
const guarded = ['x-content-type-options', 'nosniff', 'content-security-policy', "default-src 'none'; sandbox"]

/** Alternating names and values; the length stays if the bytes do. `hiddenKey` is not the caller's to know. */
export function headersToClient(
  headers: IncomingHttpHeaders,
  keepsLength: boolean,
  hiddenKey: string | undefined,
): string[] {
  const type = headers['content-type'] ?? OTHER_TYPE
  const returned: string[] = ['content-type', TYPES.test(type) ? type : OTHER_TYPE, ...guarded]
  const add = (name: string, value: string): void => {
    if (!UNSENDABLE.test(value)) returned.push(name, value)
  }
  for (const name in headers) {
    if (name === 'content-length' ? !keepsLength : !isReturned(name)) continue
    const value = headers[name]
    for (const one of typeof value === 'string' ? [value] : (value ?? []))
      add(name, hiddenKey === undefined ? one : one.replaceAll(hiddenKey, REDACTED))
  }
  return returned
}
