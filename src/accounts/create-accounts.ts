import { AppError } from '../contract/app-error.ts'
import { AUTH_PATH, type Auth, type AuthDeps, createAuth } from './create-auth.ts'

/** A client that asks for a person's consent, as it registered itself: its words, not ours. */
export type KnownClient = Readonly<{ name: string; uri: string | undefined }>

/**
 * Passwords, sessions and authorisations, for whichever address of this server a request came to: cookies and tokens are for one
 * address. Headers carry the cookies of the caller; answers carry those to set.
 */
export type Accounts = Readonly<{
  /** The cookies of a new session; undefined if address and password do not belong together. */
  signIn(
    origin: string,
    input: Readonly<{ email: string; password: string }>,
    headers: Headers,
  ): Promise<readonly string[] | undefined>
  /** The cookies that end the session. */
  signOut(origin: string, headers: Headers): Promise<readonly string[]>
  /** One of the endpoints of the OAuth server, below `/auth/oauth2/`. */
  handle(origin: string, request: Request): Promise<Response>
  /** RFC 8414. */
  metadata(origin: string): Promise<Readonly<Record<string, unknown>>>
  findClient(origin: string, clientId: string): Promise<KnownClient | undefined>
  /** What a person answered on the consent page, of which `query` is the query. Answers where to go on. */
  consent(origin: string, input: Readonly<{ accept: boolean; query: string }>, headers: Headers): Promise<string>
}>

const ORIGINS_MAX = 16

export function createAccounts(deps: AuthDeps): Accounts {
  const byOrigin = new Map<string, Auth>()

  function authOf(origin: string): Auth {
    const known = byOrigin.get(origin)
    if (known !== undefined) return known
    if (byOrigin.size >= ORIGINS_MAX) byOrigin.delete(byOrigin.keys().next().value!)
    const made = createAuth(deps, origin)
    byOrigin.set(origin, made)
    return made
  }

  const post = (origin: string, path: string, body: unknown, from: Headers): Promise<Response> => {
    const headers = new Headers(from)
    headers.set('content-type', 'application/json')
    headers.set('origin', origin)
    const request = new Request(`${origin}${AUTH_PATH}${path}`, { method: 'POST', headers, body: JSON.stringify(body) })
    return authOf(origin).handler(request)
  }

  return {
    async signIn(origin, input, headers) {
      const response = await post(origin, '/sign-in/email', input, headers)
      if (response.ok) return response.headers.getSetCookie()
      if (response.status === 401 || response.status === 400) return undefined
      throw new Error(`signing in failed with ${response.status}: ${(await response.text()).slice(0, 500)}`)
    },
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
      return { name: found.name ?? 'A client without a name', uri: found.uri ?? undefined }
    },
    async consent(origin, { accept, query }, headers) {
      const response = await post(origin, '/oauth2/consent', { accept, oauth_query: query }, headers)
      const answer = (await response.json()) as { redirect_uri?: string; url?: string; error_description?: string }
      const target = answer.redirect_uri ?? answer.url
      if (response.ok && target !== undefined) return target
      const reason = 'This request for access is over or was changed. Start again in the program that asked for it.'
      throw new AppError('ERR_INVALID_INPUT', reason, { status: response.status })
    },
  }
}
