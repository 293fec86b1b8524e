import { passkey } from '@better-auth/passkey'
import type { BetterAuthPlugin } from 'better-auth'
import { AppError } from '../contract/app-error.ts'
import { limits } from '../contract/limits.ts'
import type { Auth } from './create-auth.ts'

type Ceremony = 'register' | 'sign-in'
type PasskeyView = Readonly<{ id: string; name: string; createdAt: string }>

/** Passkeys (WebAuthn) of people, for the address of this server that a request used. */
export type Passkeys = Readonly<{
  /** The request for the browser, and the cookie that identifies its answer. A new passkey needs a recent session. */
  options(
    origin: string,
    ceremony: Ceremony,
    headers: Headers,
  ): Promise<Readonly<{ options: unknown; cookies: readonly string[] }>>
  /** The cookies of a new session and its user; undefined for an unknown or unverified passkey. */
  signIn(
    origin: string,
    response: unknown,
    headers: Headers,
  ): Promise<Readonly<{ cookies: readonly string[]; email: string }> | undefined>
  /** This and `remove` return the person's e-mail address. */
  add(origin: string, input: Readonly<{ response: unknown; name: string }>, headers: Headers): Promise<string>
  list(origin: string, headers: Headers): Promise<readonly PasskeyView[]>
  remove(origin: string, id: string, headers: Headers): Promise<string>
}>

/**
 * The plugin requests user verification, and accepts an answer without it. Here a passkey is the only factor, so such an answer
 * is refused.
 */
export const passkeyPlugin = (): BetterAuthPlugin =>
  passkey({
    rpName: 'Castellan',
    authenticatorSelection: { residentKey: 'required', userVerification: 'required' },
    registration: {
      afterVerification({ verification }) {
        if (verification.registrationInfo?.userVerified !== true) throw new Error('the person was not verified')
      },
    },
    authentication: {
      afterVerification({ verification }) {
        if (!verification.authenticationInfo.userVerified) throw new Error('the person was not verified')
      },
    },
    schema: { passkey: { modelName: 'user_passkeys' } },
  }) as unknown as BetterAuthPlugin

type Call = (
  origin: string,
  path: string,
  request: Readonly<{ method: 'GET' | 'POST'; headers: Headers; body?: unknown }>,
) => Promise<Response>

export function createPasskeys(authOf: (origin: string) => Auth, call: Call): Passkeys {
  async function list(origin: string, headers: Headers): Promise<readonly PasskeyView[]> {
    const response = await call(origin, '/passkey/list-user-passkeys', { method: 'GET', headers })
    if (!response.ok) throw notSignedIn()
    const rows = (await response.json()) as { id: string; name?: string | null; createdAt?: string | null }[]
    return rows.map(({ id, name, createdAt }) => ({ id, name: name || 'Passkey', createdAt: createdAt ?? '' }))
  }

  async function emailOf(origin: string, headers: Headers): Promise<string> {
    const response = await call(origin, '/get-session', { method: 'GET', headers })
    const session = response.ok ? ((await response.json()) as { user: { email: string } } | null) : null
    if (session === null) throw notSignedIn()
    return session.user.email
  }

  return {
    list,
    async options(origin, ceremony, headers) {
      const isNew = ceremony === 'register'
      if (isNew && (await list(origin, headers)).length >= limits.passkeysPerUserMax) {
        const message = `You have reached the limit of ${limits.passkeysPerUserMax} passkeys. Remove one first.`
        throw new AppError('ERR_INVALID_INPUT', message)
      }
      const path = `/passkey/generate-${isNew ? 'register' : 'authenticate'}-options`
      const response = await call(origin, path, { method: 'GET', headers })
      if (!response.ok) throw isNew ? tooOld() : unproved()
      return { options: await response.json(), cookies: response.headers.getSetCookie() }
    },
    async signIn(origin, response, headers) {
      const body = { response }
      const answer = await call(origin, '/passkey/verify-authentication', { method: 'POST', headers, body })
      if (!answer.ok) return undefined
      const { user } = (await answer.json()) as { user: { id: string } }
      const { adapter } = await authOf(origin).$context
      const where = [{ field: 'id', value: user.id }]
      const found = await adapter.findOne<{ email: string }>({ model: 'user', where })
      return found === null ? undefined : { cookies: answer.headers.getSetCookie(), email: found.email }
    },
    async add(origin, body, headers) {
      const email = await emailOf(origin, headers)
      const answer = await call(origin, '/passkey/verify-registration', { method: 'POST', headers, body })
      if (answer.status === 401 || answer.status === 403) throw tooOld()
      if (!answer.ok) throw unproved()
      return email
    },
    async remove(origin, id, headers) {
      const email = await emailOf(origin, headers)
      const answer = await call(origin, '/passkey/delete-passkey', { method: 'POST', headers, body: { id } })
      if (!answer.ok) throw new AppError('ERR_NOT_FOUND', 'You have no passkey with this id.')
      return email
    },
  }
}

const notSignedIn = (): AppError => new AppError('ERR_UNAUTHENTICATED', 'You are not signed in. Sign in first.')
const tooOld = (): AppError =>
  new AppError(
    'ERR_UNAUTHENTICATED',
    'A passkey can be added only soon after signing in. Sign out, sign in again, then add it.',
  )
const unproved = (): AppError =>
  new AppError('ERR_INVALID_INPUT', 'The passkey could not be verified, or it took too long. Try again.')
