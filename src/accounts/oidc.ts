import { AsyncLocalStorage } from 'node:async_hooks'
import type { BetterAuthPlugin } from 'better-auth'
import { genericOAuth } from 'better-auth/plugins/generic-oauth'
import { AppError } from '../contract/app-error.ts'
import { limits } from '../contract/limits.ts'

/** An external identity provider, by OpenID Connect. */
export type OidcProvider = Readonly<{
  id: string
  name: string
  issuer: string
  clientId: string
  clientSecret: string | undefined
}>

/** Whom a provider vouches for. The subject is theirs for ever; an e-mail address may go to another person. */
export type Vouched = Readonly<{ subject: string; email: string; name: string | undefined }>

/** What a provider says of itself (OpenID Connect Discovery). */
export type Discovered = Readonly<{
  issuer: string
  userinfo_endpoint?: string
  token_endpoint_auth_methods_supported?: readonly string[]
}>

type SignIn = { admit(vouched: Vouched): Promise<void>; refusal?: AppError }

/**
 * A sign-in that is on its way through better-auth: whom it lets in is decided by the caller, and better-auth's answer to a refusal
 * has no room for the reason.
 */
const signIns = new AsyncLocalStorage<SignIn>()

export async function whileAdmitting<T>(admit: SignIn['admit'], work: () => Promise<T>): Promise<T> {
  const signIn: SignIn = { admit }
  const answer = await signIns.run(signIn, work)
  if (signIn.refusal !== undefined) throw signIn.refusal
  return answer
}

const discoveryUrl = (issuer: string): string => `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`

/** Throws ERR_WEB_FAILED for a provider that cannot be used now. The document must be that of the very issuer that was configured. */
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
        scopes: ['openid', 'email', 'profile'],
        pkce: true,
        disableSignUp: true,
        overrideUserInfo: false,
        disableProviderLogout: true,
        async getUserInfo({ idToken, accessToken }) {
          const signIn = signIns.getStore()
          if (signIn === undefined || idToken === undefined) return null
          try {
            const vouched = vouchedBy(await claimsOf(idToken, accessToken, discovered))
            await signIn.admit(vouched)
            return { ...vouched, sub: vouched.subject, emailVerified: true, name: vouched.name ?? '' }
          } catch (error) {
            signIn.refusal = error instanceof AppError ? error : unusable(error)
            return null
          }
        },
      },
    ],
  }) as unknown as BetterAuthPlugin

/** OpenID Connect Core says `client_secret_basic` where a provider says nothing. */
const authenticationOf = ({ token_endpoint_auth_methods_supported: known }: Discovered): 'basic' | 'post' =>
  known === undefined || known.includes('client_secret_basic') ? 'basic' : 'post'

type Claims = Readonly<Record<string, unknown>>

/** The claims of a verified ID token; those that it lacks are asked for, and must be of the same person. */
async function claimsOf(idToken: string, accessToken: string | undefined, discovered: Discovered): Promise<Claims> {
  const claims = JSON.parse(Buffer.from(idToken.split('.')[1] ?? '', 'base64url').toString('utf8')) as Claims
  const { userinfo_endpoint: url } = discovered
  if (claims['email'] !== undefined || url === undefined || accessToken === undefined) return claims
  const asked = (await fetchJson(url, { authorization: `Bearer ${accessToken}` })) as Claims | undefined
  return asked !== undefined && asked['sub'] === claims['sub'] ? { ...asked, ...claims } : claims
}

function vouchedBy(claims: Claims): Vouched {
  const { sub, email, email_verified: verified, name } = claims
  if (typeof sub !== 'string' || sub === '' || typeof email !== 'string') throw unusable()
  if (verified !== true && verified !== 'true') {
    const message = 'The identity provider has not verified your e-mail address. Verify it there, then sign in again.'
    throw new AppError('ERR_PERMISSION_DENIED', message)
  }
  const shown = typeof name === 'string' ? name.trim().slice(0, limits.personNameCharsMax) : ''
  return { subject: sub, email, name: shown === '' ? undefined : shown }
}

async function fetchJson(url: string, headers: Record<string, string> = {}): Promise<unknown> {
  try {
    const signal = AbortSignal.timeout(limits.oidcRequestMs)
    const response = await fetch(url, {
      headers: { accept: 'application/json', ...headers },
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
    'The identity provider did not answer as it should. Try again later, or sign in with your password.',
    {},
    { cause },
  )
