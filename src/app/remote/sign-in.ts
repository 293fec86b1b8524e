import { createHash } from 'node:crypto'
import { hostname } from 'node:os'
import { AppError } from '../../contract/app-error.ts'
import { remoteLimits } from '../../contract/remote-limits.ts'
import { systemClock } from '../../kernel/clock.ts'
import { systemRandom } from '../../kernel/random.ts'
import { withTimeout } from '../../kernel/with-timeout.ts'
import { type AuthorizationServer, discover } from './discover.ts'
import type { HttpClient } from './http-client.ts'
import type { Login } from './logins.ts'
import { listenForRedirect } from './redirect-listener.ts'
import type { ServerAddress } from './server-address.ts'
import { askJson, requestTokens } from './token-endpoint.ts'

type SignInOptions = Readonly<{
  http: HttpClient
  address: ServerAddress
  /** Shows the address to the person. */
  show(authorizationUrl: string): void
  /** Ends the wait for the person. */
  signal: AbortSignal
}>

/** `terminal`: the person answers approvals and changes rules here, as at a terminal of the server. */
const SCOPE = 'offline_access terminal'
const secret = (): string => systemRandom.bytes(32).toString('base64url')

/** The authorisation code flow with PKCE, with this machine's loopback address as the redirect address. */
export async function signIn({ http, address, show, signal }: SignInOptions): Promise<Login> {
  const { origin, resource } = address
  const server = await discover(http, address)
  const state = secret()
  const verifier = secret()
  await using listener = await listenForRedirect(state)
  const { redirectUri } = listener
  const clientId = await register(http, server, redirectUri)
  const url = new URL(server.authorizationEndpoint)
  const parameters = {
    response_type: 'code',
    client_id: clientId,
    redirect_uri: redirectUri,
    scope: SCOPE,
    state,
    code_challenge: createHash('sha256').update(verifier).digest('base64url'),
    code_challenge_method: 'S256',
    resource,
  }
  for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value)
  show(url.href)
  const code = codeIn(await Promise.race([listener.answer, ended(signal)]), server, origin)
  const tokens = await requestTokens(http, server.tokenEndpoint, {
    grant_type: 'authorization_code',
    code,
    client_id: clientId,
    redirect_uri: redirectUri,
    code_verifier: verifier,
    resource,
  })
  if (tokens === undefined) throw failed(origin, 'the server did not accept the answer of the browser')
  const { accessToken, refreshToken, lifetimeMs } = tokens
  const { tokenEndpoint, revocationEndpoint } = server
  const expiresAtMs = systemClock.nowMs() + lifetimeMs
  return { resource, clientId, tokenEndpoint, revocationEndpoint, accessToken, refreshToken, expiresAtMs }
}

async function register(http: HttpClient, server: AuthorizationServer, redirectUri: string): Promise<string> {
  const json = {
    client_name: `castellan login on ${hostname()}`.slice(0, 64),
    application_type: 'native',
    redirect_uris: [redirectUri],
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    token_endpoint_auth_method: 'none',
    scope: SCOPE,
  }
  const { status, body } = await askJson(http, server.registrationEndpoint, { json })
  const { client_id } = body
  if (status >= 200 && status < 300 && typeof client_id === 'string') return client_id
  throw failed(new URL(server.issuer).origin, `the server did not register this program (HTTP ${status})`)
}

/** The answer is for us if it has our state, and from that server if it says so (RFC 9207). */
function codeIn(answer: URLSearchParams, { issuer }: AuthorizationServer, origin: string): string {
  if (answer.get('iss') !== issuer) throw failed(origin, 'the answer names another server')
  const code = answer.get('code')
  if (code !== null) return code
  const isDenied = answer.get('error') === 'access_denied'
  throw isDenied
    ? new AppError('ERR_PERMISSION_DENIED', `You did not allow Castellan to act for you at ${origin}.`, { origin })
    : failed(origin, 'the server answered with an error')
}

async function ended(signal: AbortSignal): Promise<never> {
  const either = withTimeout(signal, remoteLimits.signInMs)
  await new Promise((resolve) => either.addEventListener('abort', resolve, { once: true }))
  if (signal.aborted) throw new AppError('ERR_CANCELLED', 'Signing in was cancelled.')
  const minutes = remoteLimits.signInMs / 60_000
  throw new AppError('ERR_TIMED_OUT', `Nobody signed in within ${minutes} minutes. Run castellan login again.`)
}

const failed = (origin: string, reason: string): AppError =>
  new AppError('ERR_WEB_FAILED', `Signing in to ${origin} failed: ${reason}. Try again.`, { origin })
