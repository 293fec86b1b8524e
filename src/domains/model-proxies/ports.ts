import type { TenantId } from '../../contract/principal.ts'
import type { Sharing, Viewer } from '../../contract/sharing.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'

/** What a virtual key is for; null is everything of its kind. */
export type KeyGrants = Readonly<{
  /** Ids of model proxies. */
  proxies: readonly string[] | null
  /** Names of providers. */
  providers: readonly string[] | null
  /** Names of models; one that ends in `*` stands for all that begin so. */
  models: readonly string[] | null
}>

/**
 * A key for models alone. The key itself is not stored: `hash` is the SHA-256 of the whole token, and `prefix` its public part. One of
 * the scope `personal` is its author, narrowed; others act for their teams or the organisation.
 */
export type VirtualKey = Readonly<{
  tenant: TenantId
  id: string
  prefix: string
  hash: string
  name: string
  sharing: Sharing
  grants: KeyGrants
  createdAtMs: number
  createdBy: string
  rotatedAtMs: number | null
  expiresAtMs: number | null
  lastUsedAtMs: number | null
  revokedAtMs: number | null
}>

/** Every method answers for one tenant only, except `findByPrefix`. */
export type VirtualKeyStore = Readonly<{
  /** The prefix is unique over all tenants; a second one is refused by the store. */
  insertKey(tx: WriteTx, tenant: TenantId, key: VirtualKey): Promise<void>
  /** With another prefix and hash, unless it is revoked; answers whether it was there. */
  replaceSecret(
    tx: WriteTx,
    tenant: TenantId,
    id: string,
    secret: Readonly<{ prefix: string; hash: string; atMs: number }>,
  ): Promise<boolean>
  /** Sets `revokedAtMs` unless it is set; answers whether this call did it. */
  revokeKey(tx: WriteTx, tenant: TenantId, id: string, atMs: number): Promise<boolean>
  /** Moves `lastUsedAtMs` forward to `atMs`, never back. */
  touchKey(tx: WriteTx, tenant: TenantId, id: string, atMs: number): Promise<void>
  findKey(tx: ReadTx | WriteTx, tenant: TenantId, id: string): Promise<VirtualKey | undefined>
  /** All that have the name and are not revoked, expired ones included. */
  findNamed(tx: ReadTx, tenant: TenantId, name: string): Promise<VirtualKey[]>
  /** What the viewer sees, newest first, revoked and expired ones included. */
  listKeys(tx: ReadTx, tenant: TenantId, viewer: Viewer, limit: number): Promise<VirtualKey[]>
  /** How many an author has that are not revoked. */
  countOf(tx: ReadTx, tenant: TenantId, author: string): Promise<number>
  /** The one look-up without a tenant, as with API keys: nothing of it may be shown before the hash has matched. */
  findByPrefix(tx: ReadTx, prefix: string): Promise<VirtualKey | undefined>
}>
