import type { AfterNewest, PagedRows } from '../../contract/list-page.ts'
import type { Permission } from '../../contract/permissions.ts'
import type { Role, TenantId, Tier } from '../../contract/principal.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'

/**
 * An API key as stored. The key itself is not: `hash` is the SHA-256 of the whole token, and `prefix` its public part. `scopes`
 * null means everything that the role may do. Records carry the name as the actor.
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
  /** The user who created it, directly or with another key: it ends with that user. */
  userId: string | null
}>

/**
 * Every method answers for one tenant only, except `findKeyByPrefix`. `insertKey` and `revokeKey` accept the transaction of any
 * tenant: an operator manages the keys of another tenant inside its own transaction. `touchKey` accepts only its tenant's.
 */
export type ApiKeyStore = Readonly<{
  /** The prefix is unique over all tenants; the store refuses a duplicate. */
  insertKey(tx: WriteTx, tenant: TenantId, key: ApiKey): Promise<void>
  findKey(tx: ReadTx, tenant: TenantId, id: string): Promise<ApiKey | undefined>
  /** The key of this name that is neither revoked nor expired at `nowMs`. */
  findLiveKeyByName(tx: ReadTx, tenant: TenantId, name: string, nowMs: number): Promise<ApiKey | undefined>
  /** Keys with the role that are neither revoked nor expired at `nowMs`, by name. */
  listLiveKeysOfRole(tx: ReadTx, tenant: TenantId, role: string, nowMs: number): Promise<ApiKey[]>
  /** Newest first, revoked and expired ones included; with the text in their name. */
  listKeys(
    tx: ReadTx,
    tenant: TenantId,
    filter: Readonly<{ text?: string | undefined }>,
  ): PagedRows<ApiKey, AfterNewest>
  /** Those that are not revoked, oldest first. */
  listKeysOfUser(tx: ReadTx, tenant: TenantId, userId: string): Promise<ApiKey[]>
  /** Sets `revokedAtMs` unless it is set; returns whether this call did it. */
  revokeKey(tx: WriteTx, tenant: TenantId, id: string, atMs: number): Promise<boolean>
  /** Moves `lastUsedAtMs` forward to `atMs`, never back. */
  touchKey(tx: WriteTx, tenant: TenantId, id: string, atMs: number): Promise<void>
  /**
   * The one lookup without a tenant: a token arrives before its tenant is known, and this row names it. For authentication alone;
   * nothing of the row may be shown before the token's hash has matched.
   */
  findKeyByPrefix(tx: ReadTx, prefix: string): Promise<ApiKey | undefined>
}>

/** A custom role of a tenant. */
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
  /**
   * Until the transaction ends, no other one that calls this continues. A transaction that gives a role to a user, a client or a key,
   * or creates or deletes one, calls it first: an operator gives roles of another tenant inside a transaction of its own.
   */
  holdRoles(tx: WriteTx, tenant: TenantId): Promise<void>
}>

/** Who has a role, besides keys. A role that they have is not deleted. */
export type RoleHolders = Readonly<{
  users: number
  /** Those that can still be accepted. */
  invitations: number
  clients: number
  /** Ids of the identity providers whose new users get the role, by the configuration. */
  providers: readonly string[]
}>
