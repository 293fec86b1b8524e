import { setTimeout as delay } from 'node:timers/promises'
import { AppError } from '../../contract/app-error.ts'
import { remoteLimits } from '../../contract/remote-limits.ts'
import { systemClock } from '../../kernel/clock.ts'
import { type AuthorizationServer, discover } from './discover.ts'
import type { HttpClient } from './http-client.ts'
import type { Login } from './logins.ts'
import type { ServerAddress } from './server-address.ts'
import { loginOf, notAllowed, registerClient, SCOPE, signInFailed } from './signing-in.ts'
import { askJson, type Tokens, tokensIn } from './token-endpoint.ts'

type SignInByCodeOptions = Readonly<{
  http: HttpClient
  address: ServerAddress
  /** Shows the person where to type which code. */
  show(displayed: Readonly<{ url: string; code: string }>): void
  /** Ends the wait for the person. */
  signal: AbortSignal
}>

const GRANT = 'urn:ietf:params:oauth:grant-type:device_code'
/** RFC 8628: the pause if the server names none, and how much longer it is after `slow_down`. */
const PAUSE_MS = 5_000
const ADDED_MS = 5_000

type Codes = Readonly<{ deviceCode: string; code: string; url: string; expiresInMs: number; pauseMs: number }>

/** The device authorization grant (RFC 8628), for a terminal on a machine without a browser. */
export async function signInByCode({ http, address, show, signal }: SignInByCodeOptions): Promise<Login> {
  const { origin, resource } = address
  const server = await discover(http, address)
  const { deviceEndpoint, tokenEndpoint } = server
  if (deviceEndpoint === undefined) {
    const message = `device: the server at ${origin} cannot sign in a terminal by a code. Sign in without --device on a machine with a browser, or use an API key: --key or CASTELLAN_API_KEY.`
    throw new AppError('ERR_INVALID_INPUT', message, { field: 'device', origin })
  }
  const clientId = await registerClient(http, server, { grant_types: [GRANT, 'refresh_token'], response_types: [] })
  const codes = await requestCodes(http, deviceEndpoint, { client_id: clientId, scope: SCOPE, resource })
  show(codes)
  const form = { grant_type: GRANT, device_code: codes.deviceCode, client_id: clientId, resource }
  const tokens = await untilAnswered({ http, tokenEndpoint, form, codes, origin, signal })
  return loginOf(server, { resource, clientId, tokens })
}

async function requestCodes(
  http: HttpClient,
  endpoint: NonNullable<AuthorizationServer['deviceEndpoint']>,
  form: Record<string, string>,
): Promise<Codes> {
  const { origin } = new URL(endpoint)
  const { status, body } = await askJson(http, endpoint, { form })
  const { device_code, user_code, verification_uri, expires_in, interval } = body
  const isText = [device_code, user_code, verification_uri].every((value) => typeof value === 'string')
  if (status !== 200 || !isText || typeof expires_in !== 'number') {
    throw signInFailed(origin, `the server gave this terminal no code (HTTP ${status})`)
  }
  const url = verification_uri as string
  if (URL.parse(url)?.origin !== origin) throw signInFailed(origin, 'the page for the code is on another host')
  return {
    deviceCode: device_code as string,
    // It is printed to a terminal, so it has no control characters.
    code: (user_code as string).replaceAll(/[^\x20-\x7e]/g, '').slice(0, 64),
    url,
    expiresInMs: Math.min(expires_in * 1000, remoteLimits.deviceSignInMsMax),
    pauseMs: typeof interval === 'number' && interval > 0 ? interval * 1000 : PAUSE_MS,
  }
}

type Waiting = Readonly<{
  http: HttpClient
  tokenEndpoint: string
  form: Record<string, string>
  codes: Codes
  origin: string
  signal: AbortSignal
}>

/** Asks until the person has answered. A server that restarts meanwhile is asked again. */
async function untilAnswered({ http, tokenEndpoint, form, codes, origin, signal }: Waiting): Promise<Tokens> {
  const deadlineMs = systemClock.monotonicMs() + codes.expiresInMs
  let { pauseMs } = codes
  while (systemClock.monotonicMs() < deadlineMs) {
    await paused(Math.min(pauseMs, remoteLimits.devicePauseMsMax), signal)
    const reply = await askJson(http, tokenEndpoint, { form }).catch(unreachable)
    // Nothing was answered: the server restarts, or too many ask.
    if (reply === undefined || reply.status >= 500 || reply.status === 429) continue
    const { error } = reply.body
    if (error === 'authorization_pending') continue
    if (error === 'slow_down') pauseMs += ADDED_MS
    else if (error === 'access_denied') throw notAllowed(origin)
    else if (error === 'expired_token') break
    else if (reply.status !== 200) throw signInFailed(origin, 'the server no longer knows the code')
    else return tokensIn(reply, tokenEndpoint)
  }
  const minutes = Math.round(codes.expiresInMs / 60_000)
  const message = `Nobody typed the code within ${minutes} minutes. Run castellan login --device again.`
  throw new AppError('ERR_TIMED_OUT', message)
}

const unreachable = (error: unknown): undefined => {
  const isLate = error instanceof Error && ['TimeoutError', 'AbortError'].includes(error.name)
  const isLost = error instanceof AppError && ['ERR_WEB_FAILED', 'ERR_OWNER_LOST'].includes(error.code)
  if (!isLate && !isLost) throw error
}

async function paused(ms: number, signal: AbortSignal): Promise<void> {
  await delay(ms, undefined, { signal }).catch(() => {
    throw new AppError('ERR_CANCELLED', 'Signing in was cancelled.')
  })
}
