import { identityOf as ownerOf, type Principal, type TenantId } from '../contract/principal.ts'
import { sha256Hex } from '../kernel/hash.ts'

/** Whether it is that owner who is behind the principal. */
export const isOf = (principal: Principal, tenant: TenantId, owner: string): boolean =>
  principal.tenant === tenant && ownerOf(principal) === owner

const NAME_CHARS = 32

/** The principal as one of that connection. The id of a session is its client's secret, so others see a digest of it. */
export const inSession = (principal: Principal, sessionId: string): Principal => ({
  ...principal,
  mcpSessionId: sha256Hex(sessionId).slice(0, NAME_CHARS),
})

const identities = new WeakMap<Principal, string>()

/** Who a caller is and through which gateway it comes, apart from what it may do at the moment. */
export function identityOf(principal: Principal): string {
  let identity = identities.get(principal)
  if (identity === undefined) {
    const { tenant, kind, actor, keyId, user, agent, gateway } = principal
    identity = JSON.stringify([tenant, kind, actor, keyId ?? 0, user ?? 0, agent ?? 0, gateway ?? 0])
    identities.set(principal, identity)
  }
  return identity
}
