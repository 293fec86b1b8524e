import { type Permission, permissionsOfRole } from './permissions.ts'
import type { SecurityContext } from './security-context.ts'

export const tiers = ['user', 'system', 'operator'] as const
export type Tier = (typeof tiers)[number]
export const roles = ['admin', 'editor', 'member'] as const
/** The roles that every tenant has. */
export type BuiltInRole = (typeof roles)[number]
/** One of those, or the name of a role that the tenant made. */
export type Role = string
export const isBuiltInRole = (role: string): role is BuiltInRole => (roles as readonly string[]).includes(role)

export type TenantId = string & { readonly __brand: 'TenantId' }
export const tenantId = (value: string): TenantId => value as TenantId
export const LOCAL_TENANT = tenantId('local')
/** What is here is seen by every tenant and written by operators only. */
export const SYSTEM_TENANT = tenantId('aegis-system')

/**
 * Who is calling. Made once, by the transport, and passed explicitly from there; nothing else says who acts.
 * `actor` is the name that records carry (`created_by`, `recorded_by`).
 * `permissions` is what the role may do, narrowed by `scopes` where there are any; it is resolved where the principal is made, and
 * nothing asks the role itself. `teams` are the teams of people to which the caller belongs.
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
  agent?: string
  /** All of them must allow a call. */
  securityContexts?: readonly SecurityContext[]
  conversationId?: string
  executionId?: string
  /** The topmost of the runs in which it calls. */
  runRootId?: string
  /** The connection of an MCP client, as the server named it. */
  mcpSessionId?: string
  /** The session in which a signed call came. */
  sealSessionId?: string
  /** The virtual key with which the caller came, where the caller is its owner: it ends with either. */
  virtualKeyId?: string
  /** Whose an agent's things are: the identity of the caller that started it. */
  onBehalfOf?: string
  /** The tier of the caller that set an agent going, where it is above the agent's own. */
  ownerTier?: Tier
  /** Deploys under new names alone: what the platform deploys for a caller that may have it made, but may not deploy. */
  newNamesOnly?: true
  /** The id of the gateway or agent at whose address the call came in: it can use what is assigned there, and nothing else. */
  gateway?: string
  /** What fs.* and cmd.run act on. */
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
 * What is left for a caller of something that all share: others never take the shares of those who run the installation, nor
 * those the share of the local owner.
 */
export function shareFor(
  principal: Pick<Principal, 'kind' | 'tenant' | 'tier'>,
  max: number,
  reserved: number,
): number {
  if (principal.kind === 'owner') return max
  return isPlatformOperator(principal) && principal.kind === 'key' ? max - reserved : max - 2 * reserved
}

/** The local person: quotas do not apply to it, and it is never gone. */
export const LOCAL_OWNER = 'owner'

/** Whose something is. The kind is part of it, so that a key and a user of the same name differ. */
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
/** The key behind an identity, if it is one of a key. */
export const keyIdOf = (identity: string): string | undefined =>
  identity.startsWith(KEY) ? identity.slice(KEY.length) : undefined

const USER = 'user:'
export const userIdentity = (userId: string): string => `${USER}${userId}`
/** The user behind an identity, if it is one of a user. */
export const userIdOf = (identity: string): string | undefined =>
  identity.startsWith(USER) ? identity.slice(USER.length) : undefined

/** All that the caller stands on: when one of them is gone, so is the caller. */
export function standsOn(principal: Principal): readonly string[] {
  const { virtualKeyId } = principal
  const owner = identityOf(principal)
  return virtualKeyId === undefined ? [owner] : [owner, keyIdentity(virtualKeyId)]
}

/** Whether the identity can be taken away; the local person stays. */
export const canBeRevoked = (identity: string): boolean =>
  keyIdOf(identity) !== undefined || userIdOf(identity) !== undefined

/** What bounds count a caller by: an agent counts as its owner, under whatever name it runs. */
export const callerKey = (principal: Principal): string => `${principal.tenant}/${identityOf(principal)}`
