import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { AppError } from '../contract/app-error.ts'
import { localOwner, type Principal } from '../contract/principal.ts'
import type { Clock } from '../kernel/clock.ts'
import { isLoopbackAddress, peerAddressOf, relayRequiresKeys } from './peer-address.ts'

/**
 * Who makes a request.
 *
 * 1. Whoever shows a credential is who the credential says, or is refused: a bad one never makes anyone the owner.
 * 2. Without one, the peer is the local owner only if it is on this machine, nothing says that the request was forwarded
 *    from elsewhere, and no keys are demanded.
 */
export type Authenticator = Readonly<{ authenticate(token: string, nowMs: number): Promise<Principal> }>

export type AuthenticationDeps = Readonly<{
  /** Resolves when identities can be looked up; with nothing where there are none. */
  identity(): Promise<Authenticator | undefined>
  requireKeys: boolean
  clock: Clock
  /** Told whose a connection is; throws when that are too many. */
  claim(socket: Socket, principal: Principal): void
}>

/** Answers at once for the local owner: the busiest caller costs no promise. Throws or rejects with ERR_UNAUTHENTICATED. */
export type Authenticate = (req: IncomingMessage) => Principal | Promise<Principal>

/** What proxies, tunnels and content networks add; any one of them says that somebody else is asking. */
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
const BEARER = /^Bearer +([^\s]+) *$/i

export function createAuthenticate(deps: AuthenticationDeps): Authenticate {
  async function byToken(req: IncomingMessage, token: string): Promise<Principal> {
    const identity = await deps.identity()
    if (identity === undefined) throw badCredential('This server has no API keys in its present mode.')
    const principal = await identity.authenticate(token, deps.clock.nowMs())
    deps.claim(req.socket, principal)
    return principal
  }

  return (req) => {
    const { authorization, 'x-api-key': apiKey } = req.headers
    if (authorization !== undefined || apiKey !== undefined) return byToken(req, tokenOf(authorization, apiKey))
    if (deps.requireKeys || relayRequiresKeys(req.socket) || !isLocal(req)) {
      throw new AppError(
        'ERR_UNAUTHENTICATED',
        'An API key is needed: send it as "Authorization: Bearer cst_…". Make one with: castellan keys create.',
      )
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
