import { createHash } from 'node:crypto'
import { AppError } from '../../contract/app-error.ts'
import { remoteLimits } from '../../contract/remote-limits.ts'
import { systemRandom } from '../../kernel/random.ts'
import { withTimeout } from '../../kernel/with-timeout.ts'
import { type AuthorizationServer, discover } from './discover.ts'
import type { HttpClient } from './http-client.ts'
import type { Login } from './logins.ts'
import { listenForRedirect } from './redirect-listener.ts'
import type { ServerAddress } from './server-address.ts'
import { loginOf, notAllowed, registerClient, SCOPE, signInFailed } from './signing-in.ts'
import { requestTokens } from './token-endpoint.ts'

type SignInOptions = Readonly<{
  http: HttpClient
  address: ServerAddress
  /** Shows the address to the person. */
  show(authorizationUrl: string): void
  /** Ends the wait for the person. */
  signal: AbortSignal
}>

const secret = (): string => systemRandom.bytes(32).toString('base64url')

/** The authorisation code flow with PKCE, with this machine's loopback address as the redirect address. */
export async function signIn({ http, address, show, signal }: SignInOptions): Promise<Login> {
  const { origin, resource } = address
  const server = await discover(http, address)
  const state = secret()
  const verifier = secret()
  await using listener = await listenForRedirect(state)
  const { redirectUri } = listener
  const clientId = await registerClient(http, server, {
    redirect_uris: [redirectUri],
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
  })
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
  if (tokens === undefined) throw signInFailed(origin, 'the server did not accept the answer of the browser')
  return loginOf(server, { resource, clientId, tokens })
}

/** The answer is for us if it has our state, and from that server if it says so (RFC 9207). */
function codeIn(answer: URLSearchParams, { issuer }: AuthorizationServer, origin: string): string {
  if (answer.get('iss') !== issuer) throw signInFailed(origin, 'the answer names another server')
  const code = answer.get('code')
  if (code !== null) return code
  const isDenied = answer.get('error') === 'access_denied'
  throw isDenied ? notAllowed(origin) : signInFailed(origin, 'the server answered with an error')
}

async function ended(signal: AbortSignal): Promise<never> {
  const either = withTimeout(signal, remoteLimits.signInMs)
  await new Promise((resolve) => either.addEventListener('abort', resolve, { once: true }))
  if (signal.aborted) throw new AppError('ERR_CANCELLED', 'Signing in was cancelled.')
  const minutes = remoteLimits.signInMs / 60_000
  throw new AppError('ERR_TIMED_OUT', `Nobody signed in within ${minutes} minutes. Run castellan login again.`)
}
