import type { Permission } from '../../contract/permissions.ts'
import type { Role, TenantId, Tier } from '../../contract/principal.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'

/**
 * An API key as it is stored. The key itself is not: `hash` is the SHA-256 of the whole token, and `prefix` its public
 * part. `scopes` null means everything that the role may do. The name is what records carry as the actor.
 */
export type ApiKey = Readonly<{
  tenant: TenantId
  id: string
  prefix: string
  hash: string
  name: string
  role: Role
  tier: Tier
  scopes: readonly Permission[] | null
  createdAtMs: number
  createdBy: string
  expiresAtMs: number | null
  lastUsedAtMs: number | null
  revokedAtMs: number | null
  /** The user who created it, also by another key of theirs: it ends with them. */
  userId: string | null
}>

/**
 * Every method answers for one tenant only, except `findKeyByPrefix`. `insertKey` and `revokeKey` take the transaction of any
 * tenant: an operator manages the keys of another tenant inside its own transaction. `touchKey` takes only its tenant's.
 */
export type ApiKeyStore = Readonly<{
  /** The prefix is unique over all tenants; a second one is refused by the store. */
  insertKey(tx: WriteTx, tenant: TenantId, key: ApiKey): Promise<void>
  findKey(tx: ReadTx, tenant: TenantId, id: string): Promise<ApiKey | undefined>
  /** The key of this name that is neither revoked nor expired at `nowMs`. */
  findLiveKeyByName(tx: ReadTx, tenant: TenantId, name: string, nowMs: number): Promise<ApiKey | undefined>
  /** Newest first, revoked and expired ones included. */
  listKeys(tx: ReadTx, tenant: TenantId, limit: number): Promise<ApiKey[]>
  /** Those that are not revoked, oldest first. */
  listKeysOfUser(tx: ReadTx, tenant: TenantId, userId: string): Promise<ApiKey[]>
  /** Sets `revokedAtMs` unless it is set; answers whether this call did it. */
  revokeKey(tx: WriteTx, tenant: TenantId, id: string, atMs: number): Promise<boolean>
  /** Moves `lastUsedAtMs` forward to `atMs`, never back. */
  touchKey(tx: WriteTx, tenant: TenantId, id: string, atMs: number): Promise<void>
  /**
   * The one look-up without a tenant: a token arrives before anyone knows whose it is, and the row found here is what
   * says so. It serves authentication alone; nothing of the row may be shown before the token's hash has matched.
   */
  findKeyByPrefix(tx: ReadTx, prefix: string): Promise<ApiKey | undefined>
}>

/** A role that a tenant made. */
export type CustomRole = Readonly<{
  tenant: TenantId
  name: string
  description: string
  permissions: readonly Permission[]
  createdAtMs: number
  createdBy: string
}>

export type RoleStore = Readonly<{
  insertRole(tx: WriteTx, tenant: TenantId, role: CustomRole): Promise<void>
  /** Answers whether it was there. */
  deleteRole(tx: WriteTx, tenant: TenantId, name: string): Promise<boolean>
  findRole(tx: ReadTx, tenant: TenantId, name: string): Promise<CustomRole | undefined>
  /** By name. */
  listRoles(tx: ReadTx, tenant: TenantId): Promise<CustomRole[]>
}>
