import type { IncomingHttpHeaders } from 'node:http'
import { AppError } from '../contract/app-error.ts'
import type { RequestHead } from '../http/exchange/request-head.ts'
import { isForwarded } from './forwarded-headers.ts'
import type { PresentedKeys } from './ports.ts'

/**
 * The credentials of a request, wherever the providers' packages put them: `Authorization`, `X-Api-Key`, `X-Goog-Api-Key`,
 * `Api-Key`, or `?key=`. `X-Castellan-Key` is only for ours and leaves the others to the provider.
 *
 * 1. A credential with the form of ours is ours, and is never forwarded. Anywhere else it is refused.
 * 2. Any other is the caller's own provider key.
 * 3. The packages require some key. `castellan` is a placeholder.
 */
export function presentedKeys(
  req: RequestHead,
  { query, queryKeys }: Readonly<{ query: string; queryKeys: readonly string[] }>,
  isOurs: (key: string) => boolean,
): PresentedKeys {
  const { headers } = req
  requireNone(headers, query, isOurs)
  const own = headers['x-castellan-key']
  const { authorization } = headers
  let key: string | null = null
  for (const found of [
    authorization === undefined ? undefined : bearerOf(authorization),
    headers['x-api-key'],
    headers['x-goog-api-key'],
    headers['api-key'],
    ...queryKeys,
  ]) {
    if (found === undefined || found === PLACEHOLDER || found === '') continue
    if (typeof found !== 'string' || (key !== null && key !== found)) throw severalKeys()
    key = found
  }
  if (own !== undefined) {
    if (typeof own !== 'string' || (key !== null && isOurs(key))) throw severalKeys()
    return { ours: own, providers: key }
  }
  return key !== null && isOurs(key) ? { ours: key, providers: null } : { ours: null, providers: key }
}

const PLACEHOLDER = 'castellan'
const BEARER = /^Bearer +(\S+) *$/i

function bearerOf(authorization: string): string {
  const token = BEARER.exec(authorization)?.[1]
  if (token !== undefined) return token
  throw new AppError('ERR_UNAUTHENTICATED', 'Authorization: only "Bearer" with a key is accepted.')
}

/** Nothing that would be forwarded contains one of our keys, not even as a part. */
function requireNone(headers: IncomingHttpHeaders, query: string, isOurs: (key: string) => boolean): void {
  for (const name in headers) {
    const value = String(headers[name])
    // All of ours have one.
    if (!value.includes('_') || !isForwarded(name)) continue
    if (value.split(WORD_END).some(isOurs)) throw misplacedKey(`the header ${name}`)
  }
  if (query === '') return
  for (const [name, value] of new URLSearchParams(query)) {
    if ([name, value].some((text) => text.split(WORD_END).some(isOurs))) throw misplacedKey('the query')
  }
}

const WORD_END = /[^A-Za-z0-9_]+/

const misplacedKey = (where: string): AppError =>
  new AppError(
    'ERR_INVALID_INPUT',
    `${where} contains a key of this server, which would be sent to the provider. Send it in Authorization, X-Api-Key, X-Goog-Api-Key, Api-Key, ?key= or X-Castellan-Key.`,
  )

const severalKeys = (): AppError =>
  new AppError(
    'ERR_UNAUTHENTICATED',
    'Send one key: in Authorization, X-Api-Key, X-Goog-Api-Key, Api-Key or ?key=. To send a key of this server as well, use X-Castellan-Key.',
  )

/**
 * The refusal of a request without a key of ours, in the words of a program that sends one to its provider. It may have sent
 * another key.
 */
export const keyNeeded = (error: unknown, { providers }: PresentedKeys): unknown =>
  error instanceof AppError && error.code === 'ERR_UNAUTHENTICATED'
    ? new AppError(
        error.code,
        (providers === null ? '' : 'The key in this request is not one of this server: it is unknown or misspelt. ') +
          "A key of this server is required in place of the provider's key: an API key (castellan keys create), or a virtual key, which is valid only for models (virtual_key_create).",
        error.details,
      )
    : error
