import type { RuleEntity } from '../../contract/optimization-rules.ts'
import type { TenantId } from '../../contract/principal.ts'
import type { Sharing, Viewer } from '../../contract/sharing.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'

/** The restrictions of a virtual key; null means everything of its kind. */
export type KeyGrants = Readonly<{
  /** Ids of model proxies. */
  proxies: readonly string[] | null
  /** Names of providers. */
  providers: readonly string[] | null
  /** Names of models; one that ends in `*` is a prefix. */
  models: readonly string[] | null
  /** Ids of provider keys by provider: it uses these, and no other for their providers. */
  providerKeys: Readonly<Record<string, string>> | null
}>

/**
 * A key for models alone. The key itself is not stored: `hash` is the SHA-256 of the whole token, and `prefix` its public part.
 * One of the scope `personal` acts as its author, narrowed; others act for their teams or the organisation.
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
  /** Replaces prefix and hash, unless it is revoked; returns whether it existed. */
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
  /** The one lookup without a tenant, as with API keys: nothing of it may be shown before the hash has matched. */
  findByPrefix(tx: ReadTx, prefix: string): Promise<VirtualKey | undefined>
}>

/** The key of an account at a provider, with its sharing. The value is a secret, to which `secret` refers. */
export type ProviderKey = Readonly<{
  tenant: TenantId
  id: string
  name: string
  /** The name of the provider in the configuration, or of its type. */
  provider: string
  sharing: Sharing
  /** Comes before others of the same scope. */
  isPrimary: boolean
  secret: string
  /** The value was passed with the key, so it is removed with it. */
  ownsSecret: boolean
  createdAtMs: number
  createdBy: string
  rotatedAtMs: number | null
}>

/** Every method answers for one tenant only. */
export type ProviderKeyStore = Readonly<{
  insertKey(tx: WriteTx, tenant: TenantId, key: ProviderKey): Promise<void>
  /** Writes name, secret and what else can change. */
  saveKey(tx: WriteTx, tenant: TenantId, key: ProviderKey): Promise<void>
  deleteKey(tx: WriteTx, tenant: TenantId, id: string): Promise<void>
  findKey(tx: ReadTx | WriteTx, tenant: TenantId, id: string): Promise<ProviderKey | undefined>
  findNamed(tx: ReadTx, tenant: TenantId, name: string): Promise<ProviderKey[]>
  /** What the viewer sees, newest first; only of these providers, if any are named. */
  listKeys(
    tx: ReadTx,
    tenant: TenantId,
    viewer: Viewer,
    filter: Readonly<{ providers?: readonly string[]; limit: number }>,
  ): Promise<ProviderKey[]>
  countOf(tx: ReadTx, tenant: TenantId, author: string): Promise<number>
  /** Those that refer to the secret. */
  listOfSecret(tx: ReadTx | WriteTx, tenant: TenantId, reference: string): Promise<ProviderKey[]>
}>

/** A cheaper model for some requests of an entity. An absent condition matches everything. */
export type OptimizationRule = Readonly<{
  tenant: TenantId
  id: string
  name: string
  entityType: RuleEntity
  entityId: string
  provider: string
  conditions: Readonly<{
    /** The largest number of tokens in the request, estimated from its size. */
    maxTokens: number | null
    hasTools: boolean | null
    /** Names; one that ends in `*` is a prefix. */
    models: readonly string[] | null
  }>
  targetModel: string
  isEnabled: boolean
  createdAtMs: number
  createdBy: string
}>

/** Every method answers for one tenant only. */
export type OptimizationRuleStore = Readonly<{
  insertRule(tx: WriteTx, tenant: TenantId, rule: OptimizationRule): Promise<void>
  /** Writes what can change: name, conditions, target and whether it is enabled. */
  saveRule(tx: WriteTx, tenant: TenantId, rule: OptimizationRule): Promise<void>
  /** Answers whether it was there. */
  deleteRule(tx: WriteTx, tenant: TenantId, id: string): Promise<boolean>
  /** By time of creation. */
  listRules(tx: ReadTx, tenant: TenantId): Promise<OptimizationRule[]>
}>
