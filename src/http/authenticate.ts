import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { AppError } from '../contract/app-error.ts'
import { localOwner, type Principal } from '../contract/principal.ts'
import type { Clock } from '../kernel/clock.ts'
import { resourceMetadataUrl, resourceOf } from './oauth-routes.ts'
import { isLoopbackAddress, peerAddressOf, relayRequiresKeys } from './peer-address.ts'
import type { PeopleGate, PresentedCredential } from './people-gate.ts'
import type { RequestClients } from './request-client.ts'

/**
 * Who makes a request.
 *
 * 1. A caller that shows a credential is who the credential says, or is refused: a bad one never makes anyone the owner.
 * 2. A credential is an API key or an access token, sent as a bearer token, or the session of a user who signed in.
 * 3. Without one, the peer is the local owner only if it is on this machine, nothing says that the request was forwarded
 *    from elsewhere, and no keys are demanded.
 */
export type Authenticator = Readonly<{ authenticate(token: string, nowMs: number): Promise<Principal> }>

type AuthenticationDeps = Readonly<{
  /** Resolves when identities can be looked up; with nothing where there are none. */
  identity(): Promise<Authenticator | undefined>
  people(): Promise<PeopleGate | undefined>
  clients: RequestClients
  requireKeys: boolean
  clock: Clock
  /** Told whose a connection is; throws when that are too many. */
  claim(socket: Socket, principal: Principal): void
}>

/**
 * Answers at once for the local owner: the busiest caller costs no promise. Throws or rejects with ERR_UNAUTHENTICATED.
 * Where the headers that usually have a key mean something else, `key` is the key that was shown, or null.
 */
export type Authenticate = (req: IncomingMessage, key?: string | null) => Principal | Promise<Principal>

/** What every API key, access token and virtual key begins with. */
export const isOurCredential = (text: string): boolean => /^c(?:st|sa|vk)_/.test(text)

/** What proxies, tunnels and content networks add; any one of them says that the request was forwarded. */
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
const SESSION_COOKIE = 'castellan.session_token='
const BEARER = /^Bearer +([^\s]+) *$/i

export function createAuthenticate(deps: AuthenticationDeps): Authenticate {
  async function byToken(req: IncomingMessage, token: string): Promise<Principal> {
    const people = await deps.people()
    if (people?.principals.isAccessToken(token)) {
      return claimed(req, await people.principals.ofAccessToken(token, presentedBy(req), deps.clock.nowMs()))
    }
    const identity = await deps.identity()
    if (identity === undefined) throw badCredential('This server has no API keys in its present mode.')
    return claimed(req, await identity.authenticate(token, deps.clock.nowMs()))
  }

  async function bySession(req: IncomingMessage, cookie: string): Promise<Principal> {
    const people = await deps.people()
    const principal = await people?.principals.ofCookie(cookie, presentedBy(req), deps.clock.nowMs())
    if (principal === undefined) throw badCredential('The session has ended. Sign in again at /sign-in.')
    return claimed(req, principal)
  }

  function claimed(req: IncomingMessage, principal: Principal): Principal {
    deps.claim(req.socket, principal)
    return principal
  }

  function presentedBy(req: IncomingMessage): PresentedCredential {
    const address = deps.clients.addressOf(req)
    const resource = resourceOf(deps.clients.originOf(req), req.url ?? '')
    return { address, isLoopback: isLoopbackAddress(address), resource }
  }

  /** Where there are people, a client is told how to get a token (RFC 9728). */
  async function challenged(req: IncomingMessage, error: unknown): Promise<never> {
    if (!(error instanceof AppError) || error.code !== 'ERR_UNAUTHENTICATED') throw error
    const people = await deps.people().catch(() => undefined)
    if (people === undefined || !(await people.hasPeople())) throw error
    const resource_metadata = resourceMetadataUrl(deps.clients.originOf(req), req.url ?? '')
    throw new AppError(error.code, error.message, { ...error.details, resource_metadata })
  }

  return (req, key) => {
    const { authorization, 'x-api-key': apiKey, cookie } = req.headers
    if (typeof key === 'string') return byToken(req, key).catch((error: unknown) => challenged(req, error))
    if (key === undefined && (authorization !== undefined || apiKey !== undefined)) {
      return byToken(req, tokenOf(authorization, apiKey)).catch((error: unknown) => challenged(req, error))
    }
    if (cookie?.includes(SESSION_COOKIE)) return bySession(req, cookie)
    if (deps.requireKeys || relayRequiresKeys(req.socket) || !isLocal(req)) {
      const message =
        'An API key is required: send it as "Authorization: Bearer cst_…". Create one with: castellan keys create.'
      return challenged(req, badCredential(message))
    }
    return localOwner
  }
}

/** A local proxy speaks for someone else; its headers can only take the owner's rights away, never give any. */
function isLocal(req: IncomingMessage): boolean {
  if (!isLoopbackAddress(peerAddressOf(req.socket))) return false
  const { headers } = req
  for (const name of FORWARDING_HEADERS) if (headers[name] !== undefined) return false
  return true
}

function tokenOf(authorization: string | undefined, apiKey: string | string[] | undefined): string {
  const bearer = authorization === undefined ? undefined : BEARER.exec(authorization)?.[1]
  if (authorization !== undefined && bearer === undefined) {
    throw badCredential('Authorization: only "Bearer" with an API key is accepted.')
  }
  if (apiKey === undefined) return bearer!
  if (typeof apiKey !== 'string' || (bearer !== undefined && bearer !== apiKey)) {
    throw badCredential('Authorization, X-Api-Key: send one API key, not two.')
  }
  return apiKey
}

const badCredential = (message: string): AppError => new AppError('ERR_UNAUTHENTICATED', message)
