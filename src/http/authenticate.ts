import type { Socket } from 'node:net'
import { AppError } from '../contract/app-error.ts'
import { localOwner, type Principal } from '../contract/principal.ts'
import type { Clock } from '../kernel/clock.ts'
import type { RequestHead } from './exchange/request-head.ts'
import { resourceMetadataUrl, resourceOf } from './oauth-routes.ts'
import { isLoopbackAddress, peerAddressOf, relayRequiresKeys } from './peer-address.ts'
import type { PeopleGate, PresentedCredential } from './people-gate.ts'
import type { RequestClients } from './request-client.ts'

/**
 * Authenticates a request.
 *
 * 1. A caller that shows a credential is who the credential says, or is refused: a bad one, or one in a header that is not
 *    read here, never makes anyone the owner.
 * 2. A credential is an API key or an access token, sent as a bearer token, or the session of a user who signed in.
 * 3. Without one, the peer is the local owner only if it is on this machine, nothing says that the request was forwarded
 *    from elsewhere, and no keys are demanded.
 */
export type Authenticator = Readonly<{
  /** Rejects with ERR_UNAUTHENTICATED. Answers synchronously if the token was used a moment ago. */
  authenticate(token: string, nowMs: number): Principal | Promise<Principal>
}>

type AuthenticationDeps = Readonly<{
  /** Resolves when identities can be looked up; undefined if there are none. */
  identity(): Promise<Authenticator | undefined>
  people(): Promise<PeopleGate | undefined>
  clients: RequestClients
  requireKeys: boolean
  clock: Clock
  /** Called with the principal of a connection; throws if it has too many. */
  claim(socket: Socket, principal: Principal): void
}>

type Opened = Readonly<{ people: PeopleGate | undefined; identity: Authenticator | undefined }>

/**
 * Answers at once for the local owner, and for a key that came a moment ago: the busiest callers cost no promise. Throws or rejects with
 * ERR_UNAUTHENTICATED.
 * Where the headers that usually have a key mean something else, `key` is the key that was shown, or null.
 */
export type Authenticate = (req: RequestHead, key?: string | null) => Principal | Promise<Principal>

/** The prefix of every API key, access token and virtual key. */
export const isOurCredential = (text: string): boolean => /^c(?:st|sa|vk)_/.test(text)

/** Whether a text is or contains one. */
export const hasOurCredential = (text: string): boolean =>
  isOurCredential(text) || /c(?:st|vk)_[0-9a-z]{8}_[\w-]{43}|csa_[\w-]{32}/.test(text)

/** Headers of proxies, tunnels and content networks; any one means that the request was forwarded. */
const FORWARDING_HEADERS = [
  'forwarded',
  'via',
  'x-forwarded-for',
  'x-forwarded-host',
  'x-forwarded-proto',
  'x-real-ip',
  'cf-connecting-ip',
  'true-client-ip',
] as const
/** Where other servers, and our model proxies, take a key. */
const OTHER_KEY_HEADERS = [
  'x-castellan-key',
  'x-goog-api-key',
  'api-key',
  'x-auth-token',
  'proxy-authorization',
] as const
const SESSION_COOKIE = 'castellan.session_token='
const BEARER = /^Bearer +([^\s]+) *$/i

export function createAuthenticate(deps: AuthenticationDeps): Authenticate {
  let opened: Opened | undefined

  function byToken(req: RequestHead, token: string): Principal | Promise<Principal> {
    const found =
      opened === undefined ? open().then((made) => holderOf(made, req, token)) : holderOf(opened, req, token)
    if (!(found instanceof Promise)) return claimed(req, found)
    return found.then((principal) => claimed(req, principal)).catch((error: unknown) => challenged(req, error))
  }

  /** Both stay what they are once the store is open. */
  async function open(): Promise<Opened> {
    opened = { people: await deps.people(), identity: await deps.identity() }
    return opened
  }

  function holderOf({ people, identity }: Opened, req: RequestHead, token: string): Principal | Promise<Principal> {
    if (people?.principals.isAccessToken(token)) {
      return people.principals.ofAccessToken(token, presentedBy(req), deps.clock.nowMs())
    }
    if (identity !== undefined) return identity.authenticate(token, deps.clock.nowMs())
    return Promise.reject(badCredential('API keys do not work in mode MINIMAL, which has no store.'))
  }

  async function bySession(req: RequestHead, cookie: string): Promise<Principal> {
    const people = await deps.people()
    const principal = await people?.principals.ofCookie(cookie, presentedBy(req), deps.clock.nowMs())
    if (principal === undefined) throw badCredential('The session has ended. Sign in again at /sign-in.')
    return claimed(req, principal)
  }

  function claimed(req: RequestHead, principal: Principal): Principal {
    deps.claim(req.socket, principal)
    return principal
  }

  function presentedBy(req: RequestHead): PresentedCredential {
    const address = deps.clients.addressOf(req)
    const resource = resourceOf(deps.clients.originOf(req), req.url ?? '')
    const isTerminal = req.headers['castellan-terminal'] !== undefined
    return { address, isLoopback: isLoopbackAddress(address), resource, isTerminal }
  }

  /** If there are people, a client is told how to get a token (RFC 9728); `more` is for the person who reads the message. */
  async function challenged(req: RequestHead, error: unknown, more?: (origin: string) => string): Promise<never> {
    if (!(error instanceof AppError) || error.code !== 'ERR_UNAUTHENTICATED') throw error
    const people = await deps.people().catch(() => undefined)
    if (people === undefined || !(await people.hasPeople())) throw error
    const origin = deps.clients.originOf(req)
    const resource_metadata = resourceMetadataUrl(origin, req.url ?? '')
    const message = more === undefined ? error.message : `${error.message} ${more(origin)}`
    throw new AppError(error.code, message, { ...error.details, resource_metadata })
  }

  return (req, key) => {
    const { authorization, 'x-api-key': apiKey, cookie } = req.headers
    if (typeof key === 'string') return byToken(req, key)
    if (key === undefined && (authorization !== undefined || apiKey !== undefined)) {
      return byToken(req, tokenOf(authorization, apiKey))
    }
    if (cookie?.includes(SESSION_COOKIE)) return bySession(req, cookie)
    const misplaced = key === undefined && OTHER_KEY_HEADERS.find((name) => req.headers[name] !== undefined)
    if (misplaced) {
      const message = `${misplaced}: an API key is not accepted in this header. Send it as "Authorization: Bearer cst_…" or in X-Api-Key.`
      return challenged(req, badCredential(message))
    }
    if (deps.requireKeys || relayRequiresKeys(req.socket) || !isLocal(req)) {
      const message =
        'An API key is required: send it as "Authorization: Bearer cst_…". Create one with: castellan keys create.'
      return challenged(req, badCredential(message), signInText)
    }
    return localOwner
  }
}

/** A local proxy acts for someone else; its headers can only remove the owner's rights, never grant any. */
function isLocal(req: RequestHead): boolean {
  if (!isLoopbackAddress(peerAddressOf(req.socket))) return false
  const { headers } = req
  for (const name of FORWARDING_HEADERS) if (headers[name] !== undefined) return false
  return true
}

function tokenOf(authorization: string | undefined, apiKey: string | string[] | undefined): string {
  const bearer = authorization === undefined ? undefined : BEARER.exec(authorization)?.[1]
  if (authorization !== undefined && bearer === undefined) {
    throw badCredential('Authorization: must be "Bearer" followed by an API key.')
  }
  if (apiKey === undefined) return bearer!
  if (typeof apiKey !== 'string' || (bearer !== undefined && bearer !== apiKey)) {
    throw badCredential('Authorization, X-Api-Key: send one API key, not two.')
  }
  return apiKey
}

const signInText = (origin: string): string =>
  `Or sign in: an MCP client that supports OAuth opens the browser for it, castellan login does so for the command line, and people sign in at ${origin}/sign-in.`

const badCredential = (message: string): AppError => new AppError('ERR_UNAUTHENTICATED', message)
