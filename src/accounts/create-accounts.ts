import { AppError } from '../contract/app-error.ts'
import { limits } from '../contract/limits.ts'
import type { IssuedTokens } from '../domains/people/ports.ts'
import { isDocumentAddress } from './client-metadata.ts'
import { AUTH_PATH, type Auth, type AuthDeps, createAuth } from './create-auth.ts'
import { discover, type OidcProvider, oidcClient, refreshAt, unusable, type Vouched, whileAdmitting } from './oidc.ts'

import { createPasskeys, type Passkeys } from './passkeys.ts'

/** A client that requests a person's consent, as it registered itself: its words, not ours. */
type KnownClient = Readonly<{
  name: string
  uri: string | undefined
  /** The host of the client's document; undefined for a client that registered itself. */
  publisher: string | undefined
}>

/**
 * Passwords, sessions and authorisations, for the address of this server that a request used: cookies and tokens are for one
 * address. Headers carry the caller's cookies; answers carry those to set.
 */
export type Accounts = Readonly<{
  /** The cookies of a new session; undefined if address and password do not match. */
  signIn(
    origin: string,
    input: Readonly<{ email: string; password: string }>,
    headers: Headers,
  ): Promise<readonly string[] | undefined>
  /** The provider's sign-in address, and the cookies that identify the person on return. */
  startProviderSignIn(
    origin: string,
    input: Readonly<{ provider: string; returnTo: string }>,
    headers: Headers,
  ): Promise<Readonly<{ url: string; cookies: readonly string[] }>>
  /**
   * The provider's answer that a person brought back. `admit` decides about the person, and creates the user; its errors are
   * rethrown.
   */
  finishProviderSignIn(
    origin: string,
    input: Readonly<{ provider: string; request: Request; admit(vouched: Vouched): Promise<void> }>,
  ): Promise<
    Readonly<{ location: string; cookies: readonly string[]; sessionToken: string; issued: IssuedTokens | undefined }>
  >
  /** New tokens of a person, for a provider's refresh token. */
  refresh(provider: string, refreshToken: string): Promise<IssuedTokens>
  /** The user of a provider's subject. */
  findSubject(origin: string, provider: string, subject: string): Promise<string | undefined>
  passkeys: Passkeys
  /** The cookies that end the session. */
  signOut(origin: string, headers: Headers): Promise<readonly string[]>
  /** One of the endpoints of the OAuth server, below `/auth/oauth2/`. */
  handle(origin: string, request: Request): Promise<Response>
  /** RFC 8414. */
  metadata(origin: string): Promise<Readonly<Record<string, unknown>>>
  findClient(origin: string, clientId: string): Promise<KnownClient | undefined>
  /** The person's answer on the consent page with this `query`. Returns where to continue. */
  consent(origin: string, input: Readonly<{ accept: boolean; query: string }>, headers: Headers): Promise<string>
}>

const ORIGINS_MAX = 16

export type AccountsDeps = AuthDeps & Readonly<{ providers: readonly OidcProvider[] }>

export function createAccounts(deps: AccountsDeps): Accounts {
  const byOrigin = new Map<string, Auth>()
  const byProvider = new Map<string, Promise<Auth>>()

  function authOf(origin: string): Auth {
    const known = byOrigin.get(origin)
    if (known !== undefined) return known
    if (byOrigin.size >= ORIGINS_MAX) byOrigin.delete(byOrigin.keys().next().value!)
    const made = createAuth(deps, origin)
    byOrigin.set(origin, made)
    return made
  }

  function providerOf(id: string): OidcProvider {
    const provider = deps.providers.find((entry) => entry.id === id)
    if (provider === undefined)
      throw new AppError('ERR_NOT_FOUND', 'There is no such identity provider. Choose one on the sign-in page.')
    return provider
  }

  /** One for each provider, so that a provider that does not answer delays nobody else. It is retried until it answers. */
  async function authOfProvider(origin: string, id: string): Promise<Auth> {
    const provider = providerOf(id)
    const key = `${id} ${origin}`
    const made =
      byProvider.get(key) ?? discover(provider).then((found) => createAuth(deps, origin, [oidcClient(provider, found)]))
    if (byProvider.size >= ORIGINS_MAX * 2) byProvider.delete(byProvider.keys().next().value!)
    byProvider.set(key, made)
    made.catch(() => byProvider.delete(key))
    return await made
  }

  /** The origin of a request was checked before, so it is this server's. */
  function call(
    origin: string,
    path: string,
    { method, headers: from, body }: Readonly<{ method: 'GET' | 'POST'; headers: Headers; body?: unknown }>,
    auth: Auth = authOf(origin),
  ): Promise<Response> {
    const headers = new Headers(from)
    headers.set('origin', origin)
    if (method === 'POST') headers.set('content-type', 'application/json')
    const sent = method === 'POST' ? { body: JSON.stringify(body) } : {}
    return auth.handler(new Request(`${origin}${AUTH_PATH}${path}`, { method, headers, ...sent }))
  }

  const post = (origin: string, path: string, body: unknown, headers: Headers, auth?: Auth): Promise<Response> =>
    call(origin, path, { method: 'POST', headers, body }, auth)

  return {
    async signIn(origin, input, headers) {
      const response = await post(origin, '/sign-in/email', input, headers)
      if (response.ok) return response.headers.getSetCookie()
      if (response.status === 401 || response.status === 400) return undefined
      throw new Error(`signing in failed with ${response.status}: ${(await response.text()).slice(0, 500)}`)
    },
    async startProviderSignIn(origin, { provider, returnTo }, headers) {
      const auth = await authOfProvider(origin, provider)
      const body = { provider, callbackURL: `${origin}${returnTo}`, disableRedirect: true }
      const response = await post(origin, '/sign-in/social', body, headers, auth)
      if (!response.ok) {
        byProvider.delete(`${provider} ${origin}`)
        throw unusable(`${response.status} ${(await response.text()).slice(0, 500)}`)
      }
      const { url } = (await response.json()) as { url: string }
      return { url, cookies: response.headers.getSetCookie() }
    },
    async finishProviderSignIn(origin, { provider, request, admit }) {
      const auth = await authOfProvider(origin, provider)
      const { answer: response, issued } = await withDeadline(whileAdmitting(admit, () => auth.handler(request)))
      const location = response.headers.get('location') ?? ''
      const cookies = response.headers.getSetCookie()
      const sessionToken = sessionTokenIn(cookies)
      if (sessionToken !== undefined && location.startsWith(`${origin}/`)) {
        return { location, cookies, sessionToken, issued }
      }
      const reason = 'The sign-in with the identity provider was not completed, or took too long. Try again.'
      throw new AppError('ERR_UNAUTHENTICATED', reason)
    },
    async refresh(id, refreshToken) {
      const provider = providerOf(id)
      return await refreshAt(provider, await discover(provider), refreshToken, deps.clock.nowMs())
    },
    async findSubject(origin, provider, subject) {
      const { adapter } = await authOf(origin).$context
      const where = [
        { field: 'providerId', value: provider },
        { field: 'accountId', value: subject },
      ]
      return (await adapter.findOne<{ userId: string }>({ model: 'account', where }))?.userId
    },
    passkeys: createPasskeys(authOf, call),
    async signOut(origin, headers) {
      return (await post(origin, '/sign-out', {}, headers)).headers.getSetCookie()
    },
    handle: (origin, request) => authOf(origin).handler(request),
    async metadata(origin) {
      const { getOAuthServerConfig } = authOf(origin).api as unknown as Record<
        'getOAuthServerConfig',
        () => Promise<Record<string, unknown>>
      >
      return await getOAuthServerConfig()
    },
    async findClient(origin, clientId) {
      const { adapter } = await authOf(origin).$context
      const found = await adapter.findOne<{ name?: string; uri?: string; disabled?: boolean }>({
        model: 'oauthClient',
        where: [{ field: 'clientId', value: clientId }],
      })
      if (found === null || found.disabled === true) return undefined
      const publisher = isDocumentAddress(clientId) ? new URL(clientId).host : undefined
      return { name: found.name ?? 'A client without a name', uri: found.uri ?? undefined, publisher }
    },
    async consent(origin, { accept, query }, headers) {
      const response = await post(origin, '/oauth2/consent', { accept, oauth_query: query }, headers)
      const answer = (await response.json()) as { redirect_uri?: string; url?: string; error_description?: string }
      const target = answer.redirect_uri ?? answer.url
      if (response.ok && target !== undefined) return target
      const reason = 'This request for access has expired or was changed. Start again in the program that asked for it.'
      throw new AppError('ERR_INVALID_INPUT', reason, { status: response.status })
    },
  }
}

/** The token in the cookie of a new session, without its signature. */
function sessionTokenIn(cookies: readonly string[]): string | undefined {
  for (const cookie of cookies) {
    const value = /^(?:__Secure-)?castellan\.session_token=([^;]+)/.exec(cookie)?.[1]
    if (value !== undefined) return decodeURIComponent(value).split('.')[0]
  }
  return undefined
}

/** A provider that never answers must not block anybody. */
async function withDeadline<T>(work: Promise<T>): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(unusable()), limits.oidcSignInMs)
  return await Promise.race([work, promise]).finally(() => clearTimeout(timer))
}
