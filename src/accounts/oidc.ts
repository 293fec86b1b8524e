import { AsyncLocalStorage } from 'node:async_hooks'
import type { BetterAuthPlugin } from 'better-auth'
import { genericOAuth } from 'better-auth/plugins/generic-oauth'
import { AppError } from '../contract/app-error.ts'
import { limits } from '../contract/limits.ts'
import type { IssuedTokens } from '../domains/people/ports.ts'

/** An external identity provider, by OpenID Connect. */
export type OidcProvider = Readonly<{
  id: string
  name: string
  issuer: string
  clientId: string
  clientSecret: string | undefined
  /** In addition to those that identify a person. */
  scopes: readonly string[]
  /** Every e-mail address of the provider is verified, although it does not say so. */
  assumesEmailVerified: boolean
}>

/** The person whom a provider vouches for. The subject is permanent; an e-mail address may pass to another person. */
export type Vouched = Readonly<{ subject: string; email: string; name: string | undefined }>

/** The provider's metadata (OpenID Connect Discovery). */
type Discovered = Readonly<{
  issuer: string
  token_endpoint?: string
  userinfo_endpoint?: string
  token_endpoint_auth_methods_supported?: readonly string[]
}>

type SignIn = { admit(vouched: Vouched): Promise<void>; refusal?: AppError; issued?: IssuedTokens }

/**
 * A sign-in in progress through better-auth: the caller decides about admission, and better-auth's refusal cannot carry the
 * reason.
 */
const signIns = new AsyncLocalStorage<SignIn>()

export async function whileAdmitting<T>(
  admit: SignIn['admit'],
  work: () => Promise<T>,
): Promise<Readonly<{ answer: T; issued: IssuedTokens | undefined }>> {
  const signIn: SignIn = { admit }
  const answer = await signIns.run(signIn, work)
  if (signIn.refusal !== undefined) throw signIn.refusal
  return { answer, issued: signIn.issued }
}

const discoveryUrl = (issuer: string): string => `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`

/** Throws ERR_WEB_FAILED for a provider that cannot be used now. The document must name the configured issuer. */
export async function discover({ issuer }: OidcProvider): Promise<Discovered> {
  const found = (await fetchJson(discoveryUrl(issuer))) as Discovered | undefined
  if (found?.issuer === issuer) return found
  throw unusable()
}

/** better-auth's client for the provider: PKCE, state, nonce, and an ID token that its published keys have signed. */
export const oidcClient = (provider: OidcProvider, discovered: Discovered): BetterAuthPlugin =>
  genericOAuth({
    config: [
      {
        providerId: provider.id,
        name: provider.name,
        discoveryUrl: discoveryUrl(provider.issuer),
        requireIdTokenVerification: true,
        clientId: provider.clientId,
        ...(provider.clientSecret === undefined
          ? { tokenEndpointAuth: { method: 'none' } as const }
          : { clientSecret: provider.clientSecret, authentication: authenticationOf(discovered) }),
        scopes: ['openid', 'email', 'profile', ...provider.scopes],
        // Without it a provider leaves the scope out (OpenID Connect Core, 11).
        ...(provider.scopes.includes('offline_access') && { prompt: 'consent' as const }),
        pkce: true,
        disableSignUp: true,
        overrideUserInfo: false,
        disableProviderLogout: true,
        async getUserInfo({ idToken, accessToken, refreshToken, accessTokenExpiresAt }) {
          const signIn = signIns.getStore()
          if (signIn === undefined || idToken === undefined) return null
          try {
            const vouched = vouchedBy(provider, await claimsOf(idToken, accessToken, discovered))
            await signIn.admit(vouched)
            if (accessToken !== undefined) {
              const expiresAtMs = accessTokenExpiresAt?.getTime() ?? null
              signIn.issued = { accessToken, idToken, refreshToken, expiresAtMs }
            }
            return { ...vouched, sub: vouched.subject, emailVerified: true, name: vouched.name ?? '' }
          } catch (error) {
            signIn.refusal = error instanceof AppError ? error : unusable(error)
            return null
          }
        },
      },
    ],
  }) as unknown as BetterAuthPlugin

/** OpenID Connect Core defaults to `client_secret_basic`. */
const authenticationOf = ({ token_endpoint_auth_methods_supported: known }: Discovered): 'basic' | 'post' =>
  known === undefined || known.includes('client_secret_basic') ? 'basic' : 'post'

type Claims = Readonly<Record<string, unknown>>

/** The claims of a verified ID token; missing ones are requested, and must have the same subject. */
async function claimsOf(idToken: string, accessToken: string | undefined, discovered: Discovered): Promise<Claims> {
  const claims = JSON.parse(Buffer.from(idToken.split('.')[1] ?? '', 'base64url').toString('utf8')) as Claims
  const { userinfo_endpoint: url } = discovered
  if (claims['email'] !== undefined || url === undefined || accessToken === undefined) return claims
  const userInfo = (await fetchJson(url, { authorization: `Bearer ${accessToken}` })) as Claims | undefined
  return userInfo !== undefined && userInfo['sub'] === claims['sub'] ? { ...userInfo, ...claims } : claims
}

const UNVERIFIED = 'The identity provider has not verified your e-mail address. Verify it there, then sign in again.'
const UNSAID =
  'The identity provider does not say whether your e-mail address is verified, so you cannot sign in with it. If the provider verifies every address, the operator can set assume_email_verified for it in oidc_providers.'

function vouchedBy({ assumesEmailVerified }: OidcProvider, claims: Claims): Vouched {
  const { sub, email, email_verified: verified, name } = claims
  if (typeof sub !== 'string' || sub === '' || typeof email !== 'string') throw unusable()
  const isUnsaid = verified === undefined || verified === null
  if (isUnsaid ? !assumesEmailVerified : verified !== true && verified !== 'true') {
    throw new AppError('ERR_PERMISSION_DENIED', isUnsaid ? UNSAID : UNVERIFIED)
  }
  const displayed = typeof name === 'string' ? name.trim().slice(0, limits.personNameCharsMax) : ''
  return { subject: sub, email, name: displayed === '' ? undefined : displayed }
}

/** Throws ERR_UPSTREAM_UNAUTHORIZED if the provider does not renew it. */
export async function refreshAt(
  { clientId, clientSecret }: OidcProvider,
  discovered: Discovered,
  refreshToken: string,
  nowMs: number,
): Promise<IssuedTokens> {
  const isBasic = clientSecret !== undefined && authenticationOf(discovered) === 'basic'
  const basic = `${encodeURIComponent(clientId)}:${encodeURIComponent(clientSecret ?? '')}`
  const form = new URLSearchParams({
    grant_type: 'refresh_token',
    refresh_token: refreshToken,
    ...(isBasic ? {} : { client_id: clientId, ...(clientSecret !== undefined && { client_secret: clientSecret }) }),
  })
  const headers: Record<string, string> = {
    'content-type': 'application/x-www-form-urlencoded',
    ...(isBasic && { authorization: `Basic ${Buffer.from(basic).toString('base64')}` }),
  }
  const answer = await fetchJson(discovered.token_endpoint ?? '', headers, form.toString())
  const { access_token, id_token, refresh_token, expires_in } = (answer ?? {}) as Record<string, unknown>
  if (typeof access_token !== 'string') {
    throw new AppError(
      'ERR_UPSTREAM_UNAUTHORIZED',
      'The identity provider did not renew the token of this session. Sign in again.',
    )
  }
  return {
    accessToken: access_token,
    idToken: typeof id_token === 'string' ? id_token : undefined,
    refreshToken: typeof refresh_token === 'string' ? refresh_token : undefined,
    expiresAtMs: typeof expires_in === 'number' ? nowMs + expires_in * 1_000 : null,
  }
}

async function fetchJson(url: string, headers: Record<string, string> = {}, body?: string): Promise<unknown> {
  try {
    const signal = AbortSignal.timeout(limits.oidcRequestMs)
    const response = await fetch(url, {
      headers: { accept: 'application/json', ...headers },
      ...(body !== undefined && { method: 'POST', body }),
      redirect: 'error',
      signal,
    })
    return response.ok ? await response.json() : undefined
  } catch (error) {
    throw unusable(error)
  }
}

export const unusable = (cause?: unknown): AppError =>
  new AppError(
    'ERR_WEB_FAILED',
    'The identity provider returned an unexpected answer. Try again later, or sign in with your password.',
    {},
    { cause },
  )
