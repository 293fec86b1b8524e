import { createHmac, timingSafeEqual } from 'node:crypto'
import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import type { Principal } from '../../contract/principal.ts'
import type { ReadTx } from '../../contract/tx.ts'
import type { AccessToken, GrantingRoles, PeopleStore, ServiceClientStore } from './ports.ts'
import { ACCESS_TOKEN_PREFIX, hashOfToken, principalOfUser, TERMINAL_SCOPE } from './rules.ts'
import { mayReach, principalOfClient } from './service-clients.ts'

/**
 * Where a credential was presented: from which address, at which address of this server (RFC 8707's resource), and whether a command
 * line presents it.
 */
type Presented = Readonly<{ address: string; isLoopback: boolean; resource: string; isTerminal?: boolean }>

/**
 * The principals of signed-in people. A session is a cookie, and an access token is a bearer token of a client that the person
 * authorised.
 *
 * 1. A user is looked up each time, or was a moment ago: removed rights take effect.
 * 2. A session that began on this machine is valid on this machine only. Browsers send cookies to every port of a host, so a page
 *    of a workspace on a forwarded port may see it.
 * 3. A token is valid only at the address for which it was issued.
 * 4. The login of a command line also serves `castellan mcp`, through which a model calls. So the person's consent is not enough: each
 *    request says that a terminal makes it.
 */
export type PeoplePrincipals = Readonly<{
  /** Undefined if the header has no session of ours. Rejects with ERR_UNAUTHENTICATED for one that has ended or is forged. */
  ofCookie(header: string, presented: Presented, nowMs: number): Promise<Principal> | undefined
  isAccessToken(token: string): boolean
  ofAccessToken(token: string, presented: Presented, nowMs: number): Promise<Principal>
  /** Clears the cache of all users: the rights of one have changed. */
  forget(): void
}>

const COOKIE = /(?:^|;\s*)(?:__Secure-)?castellan\.session_token=([^;]*)/

type Known = Readonly<{
  principal: Principal
  /** The same at a terminal, if the person allowed that. */
  terminal?: Principal
  expiresAtMs: number
  isLocal: boolean
  resources?: readonly string[]
}>

export function createPeoplePrincipals(
  deps: Readonly<{
    store: PeopleStore
    clients: ServiceClientStore
    roles: Pick<GrantingRoles, 'grantedBy'>
    read: ReadTx
    secret: string
  }>,
): PeoplePrincipals {
  const { store, roles, read } = deps
  const known = new Map<string, Readonly<{ found: Promise<Known | undefined>; atMs: number }>>()

  async function recall(key: string, nowMs: number, find: () => Promise<Known | undefined>): Promise<Known> {
    let entry = known.get(key)
    if (entry === undefined || nowMs - entry.atMs >= limits.apiKeyCacheMs || nowMs < entry.atMs) {
      if (known.size >= limits.apiKeyCacheMax) known.delete(known.keys().next().value!)
      entry = { found: find(), atMs: nowMs }
      known.set(key, entry)
      entry.found.catch(() => known.delete(key))
    }
    const found = await entry.found
    if (found === undefined || found.expiresAtMs <= nowMs) throw unauthenticated()
    return found
  }

  async function principalOf(userId: string | null): Promise<Principal | undefined> {
    const user = userId === null ? undefined : await store.findUserById(read, userId)
    if (user === undefined) return undefined
    const granted = await roles.grantedBy(read, user.tenant, user.role)
    return principalOfUser(user, granted, await store.teamsOf(read, user.id))
  }

  /** A token without a user belongs to a program that acts for itself, while its list has the gateway. */
  async function clientOf({ clientId, resources }: AccessToken): Promise<Principal | undefined> {
    const client = await deps.clients.findClientById(read, clientId)
    if (client === undefined || !resources.every((resource) => mayReach(client, resource))) return undefined
    return principalOfClient(client, await roles.grantedBy(read, client.tenant, client.role))
  }

  async function bySession(token: string): Promise<Known | undefined> {
    const session = await store.findSessionByToken(read, token)
    const principal = session && (await principalOf(session.userId))
    if (principal === undefined) return undefined
    return { principal, expiresAtMs: session!.expiresAtMs, isLocal: isLoopback(session!.address ?? '') }
  }

  async function byAccessToken(token: string): Promise<Known | undefined> {
    const found = await store.findAccessToken(read, hashOfToken(token.slice(ACCESS_TOKEN_PREFIX.length)))
    const principal = found && (found.userId === null ? await clientOf(found) : await principalOf(found.userId))
    if (principal === undefined) return undefined
    const { clientId: oauthClient, expiresAtMs, resources, scopes } = found!
    const holder = { ...principal, oauthClient }
    return {
      principal: Object.freeze(holder),
      ...(scopes.includes(TERMINAL_SCOPE) && { terminal: Object.freeze({ ...holder, atTerminal: true as const }) }),
      expiresAtMs,
      isLocal: false,
      resources,
    }
  }

  return {
    ofCookie(header, presented, nowMs) {
      const value = COOKIE.exec(header)?.[1]
      if (value === undefined) return undefined
      return (async () => {
        const token = signedValue(value, deps.secret)
        if (token === undefined) throw unauthenticated()
        const { principal, isLocal } = await recall(`session ${token}`, nowMs, () => bySession(token))
        if (isLocal && !presented.isLoopback) throw unauthenticated()
        return principal
      })()
    },
    isAccessToken: (token) => token.startsWith(ACCESS_TOKEN_PREFIX),
    async ofAccessToken(token, presented, nowMs) {
      const key = `token ${hashOfToken(token)}`
      const { principal, terminal, resources } = await recall(key, nowMs, () => byAccessToken(token))
      if (!resources!.includes(presented.resource)) throw unauthenticated()
      return presented.isTerminal ? (terminal ?? principal) : principal
    },
    forget: () => known.clear(),
  }
}

/** The value of a cookie that better-auth signed: `value.signature`, HMAC-SHA-256 in base64, percent-encoded. */
function signedValue(cookie: string, secret: string): string | undefined {
  const text = decoded(cookie)
  const dot = text.lastIndexOf('.')
  if (dot <= 0) return undefined
  const value = text.slice(0, dot)
  const expected = createHmac('sha256', secret).update(value).digest()
  const signature = Buffer.from(text.slice(dot + 1), 'base64')
  return signature.length === expected.length && timingSafeEqual(signature, expected) ? value : undefined
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return ''
  }
}

const isLoopback = (address: string): boolean => address === '::1' || address.startsWith('127.')

const unauthenticated = (): AppError =>
  new AppError(
    'ERR_UNAUTHENTICATED',
    'The session or access token is unknown, expired, or for another address of this server; sign in again',
  )
