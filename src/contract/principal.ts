import { type Permission, permissionsOfRole } from './permissions.ts'
import type { SecurityContext } from './security-context.ts'

export const tiers = ['user', 'system', 'operator'] as const
export type Tier = (typeof tiers)[number]
export const roles = ['admin', 'editor', 'member'] as const
/** The roles that every tenant has. */
export type BuiltInRole = (typeof roles)[number]
/** A built-in role, or the name of a custom role of the tenant. */
export type Role = string
export const isBuiltInRole = (role: string): role is BuiltInRole => (roles as readonly string[]).includes(role)

export type TenantId = string & { readonly __brand: 'TenantId' }
export const tenantId = (value: string): TenantId => value as TenantId
export const LOCAL_TENANT = tenantId('local')
/** Every tenant sees this tenant's data; only operators write it. */
export const SYSTEM_TENANT = tenantId('aegis-system')

/**
 * The caller. Created once by the transport and passed explicitly from there; nothing else says who acts. `actor` is the name in
 * records (`created_by`, `recorded_by`). `permissions` are those of the role, narrowed by `scopes` if there are any; they are
 * resolved when the principal is created, and nothing asks the role itself. `teams` are the caller's teams of people.
 */
export type Principal = Readonly<{
  tenant: TenantId
  kind: 'owner' | 'key' | 'user' | 'agent'
  actor: string
  role: Role
  permissions: ReadonlySet<Permission>
  tier: Tier
  teams: readonly string[]
  scopes?: readonly Permission[]
  keyId?: string
  user?: string
  /** The program that a person allowed to act for them; absent for a person who is signed in themselves. */
  oauthClient?: string
  /** The command line of a person who allowed it to act as they do themselves: no model is in between. */
  atTerminal?: true
  agent?: string
  /** All of them must allow a call. */
  securityContexts?: readonly SecurityContext[]
  conversationId?: string
  executionId?: string
  /** The topmost run in which it calls. */
  runRootId?: string
  /** The session id of an MCP client, as the server issued it. */
  mcpSessionId?: string
  /** The session of a signed call. */
  sealSessionId?: string
  /** The virtual key of a caller that acts as its owner: the caller ends with either. */
  virtualKeyId?: string
  /** For an agent: the identity of the caller that started it, which owns what the agent creates. */
  onBehalfOf?: string
  /** The tier of the caller that started an agent, if it is above the agent's own. */
  ownerTier?: Tier
  /** May deploy only under new names: the platform deploys for a caller that may generate, but may not deploy. */
  newNamesOnly?: true
  /** The gateway or agent at whose address the call arrived: only what is assigned there can be used. */
  gateway?: string
  /** The workspace of fs.* and cmd.run. */
  workspaceId?: string
}>

/** The local person over a loopback connection or stdio: admin role and operator tier of the tenant `local`. */
export const localOwner: Principal = Object.freeze({
  tenant: LOCAL_TENANT,
  kind: 'owner',
  actor: 'owner',
  role: 'admin',
  permissions: permissionsOfRole('admin'),
  tier: 'operator',
  teams: [],
})

/** A caller of a tier may use the tools of that tier and of the tiers below it. */
export const tierAllows = (have: Tier, need: Tier): boolean => tiers.indexOf(have) >= tiers.indexOf(need)

/** Whether the caller's own manifests may name the operator's secrets. */
export const mayNameSecrets = ({ tier, ownerTier }: Pick<Principal, 'tier' | 'ownerTier'>): boolean =>
  tierAllows(ownerTier ?? tier, 'system')

/** Runs the installation. An operator of another tenant runs that tenant, and nothing that all tenants share. */
export const isPlatformOperator = ({ tenant, tier }: Pick<Principal, 'tenant' | 'tier'>): boolean =>
  tenant === LOCAL_TENANT && tier === 'operator'

/**
 * The part of a shared resource that is open to a caller: others never take the share reserved for operators of the installation,
 * and operators never that of the local owner.
 */
export function shareFor(
  principal: Pick<Principal, 'kind' | 'tenant' | 'tier'>,
  max: number,
  reserved: number,
): number {
  if (principal.kind === 'owner') return max
  return isPlatformOperator(principal) && principal.kind === 'key' ? max - reserved : max - 2 * reserved
}

/** The local owner: has no quotas and is never revoked. */
export const LOCAL_OWNER = 'owner'

/** The identity of an owner. It includes the kind, so that a key and a user of the same name differ. */
export function identityOf(principal: Principal): string {
  switch (principal.kind) {
    case 'owner':
      return LOCAL_OWNER
    case 'key':
      return keyIdentity(principal.keyId ?? principal.actor)
    case 'user':
      return userIdentity(principal.user ?? principal.actor)
    case 'agent':
      return principal.onBehalfOf ?? `agent:${principal.agent ?? principal.actor}`
  }
}

const KEY = 'key:'
/** The identity of the caller that holds the key. */
export const keyIdentity = (keyId: string): string => `${KEY}${keyId}`
/** The key of an identity, if it is a key's. */
export const keyIdOf = (identity: string): string | undefined =>
  identity.startsWith(KEY) ? identity.slice(KEY.length) : undefined

const USER = 'user:'
export const userIdentity = (userId: string): string => `${USER}${userId}`
/** The user of an identity, if it is a user's. */
export const userIdOf = (identity: string): string | undefined =>
  identity.startsWith(USER) ? identity.slice(USER.length) : undefined

/** All identities that the caller depends on: when one is revoked, so is the caller. */
export function standsOn(principal: Principal): readonly string[] {
  const { virtualKeyId } = principal
  const owner = identityOf(principal)
  return virtualKeyId === undefined ? [owner] : [owner, keyIdentity(virtualKeyId)]
}

/** Whether the identity can be revoked; the local owner cannot. */
export const canBeRevoked = (identity: string): boolean =>
  keyIdOf(identity) !== undefined || userIdOf(identity) !== undefined

/** The key under which bounds count a caller: an agent counts as its owner, under whatever name it runs. */
export const callerKey = (principal: Principal): string => `${principal.tenant}/${identityOf(principal)}`
