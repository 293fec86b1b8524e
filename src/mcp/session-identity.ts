import { stampIn } from '../contract/line-session.ts'
import { identityOf as ownerOf, type Principal, type TenantId } from '../contract/principal.ts'
import { sha256Hex } from '../kernel/hash.ts'

/** Whether the principal belongs to that owner. */
export const isOf = (principal: Principal, tenant: TenantId, owner: string): boolean =>
  principal.tenant === tenant && ownerOf(principal) === owner

const NAME_CHARS = 32

/** The principal with this connection. The id of a session is its client's secret, so others see a digest of it. */
export const inSession = (principal: Principal, sessionId: string): Principal => ({
  ...principal,
  mcpSessionId: sha256Hex(sessionId).slice(0, NAME_CHARS),
})

/** Like `inSession`, for a session over standard input. */
export function inLineSession(principal: Principal, sessionId: string): Principal {
  const named = inSession(principal, sessionId)
  const stamp = stampIn(sessionId)
  return stamp === '' ? named : { ...named, mcpSessionId: `line-${stamp}-${named.mcpSessionId}` }
}

const identities = new WeakMap<Principal, string>()

/** The identity of a caller and its gateway, apart from its present rights. */
export function identityOf(principal: Principal): string {
  let identity = identities.get(principal)
  if (identity === undefined) {
    const { tenant, kind, actor, keyId, user, agent, gateway } = principal
    identity = JSON.stringify([tenant, kind, actor, keyId ?? 0, user ?? 0, agent ?? 0, gateway ?? 0])
    identities.set(principal, identity)
  }
  return identity
}
