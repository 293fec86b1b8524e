import { AppError } from '../../contract/app-error.ts'
import type { Call, EffectRecord } from '../../contract/call.ts'
import { type ListedPage, listPage, newestFirst, type PageInput } from '../../contract/list-page.ts'
import { type Permission, rightsFrom } from '../../contract/permissions.ts'
import {
  roles as builtInRoles,
  identityOf,
  type Principal,
  type Role,
  type TenantId,
  type Tier,
  tierAllows,
  userIdOf,
} from '../../contract/principal.ts'
import type { ReadTx } from '../../contract/tx.ts'
import { isoTime } from '../../kernel/clock.ts'
import { type Random, randomId } from '../../kernel/random.ts'
import { createKeyAuthenticator } from './key-authenticator.ts'
import type { ApiKey, ApiKeyStore, RoleStore } from './ports.ts'
import { grantedBy, grantedToGive, holdRole } from './roles.ts'
import {
  checkCreatorKey,
  checkExpiry,
  checkKeyName,
  checkRights,
  hasRightsOf,
  type KeyStatus,
  keyStatus,
  keyTenant,
  quoted,
  requirePermission,
} from './rules.ts'
import { hashToken, newPrefix, newToken, tokenPrefix } from './token.ts'

/** Records of a key name it, and never contain its secret or hash. */
type KeyReading = Pick<Call, 'principal' | 'nowMs' | 'read'>
export type KeyWriting = Pick<Call, 'principal' | 'nowMs' | 'read' | 'write' | 'record'>

export type CreateKeyInput = Readonly<{
  name: string
  role: string
  tier: string
  /** Permissions (`task:read`), or all of a resource (`task:*`). If omitted: what the role and the creator may do. */
  scopes?: readonly string[] | undefined
  expires_in?: string | number | undefined
  expires_at?: string | undefined
  tenant?: string | undefined
}>

/** A key as people see it; times are ISO 8601. */
export type KeyView = Readonly<{
  id: string
  prefix: string
  name: string
  tenant: TenantId
  role: Role
  tier: Tier
  scopes: readonly Permission[] | null
  /** A key whose role was deleted has no rights. */
  status: KeyStatus | 'role_deleted'
  created_at: string
  created_by: string
  expires_at: string | null
  last_used_at: string | null
  revoked_at: string | null
}>

export type IdentityService = Readonly<{
  /** `secret` is the whole token, shown here and never again. */
  createKey(context: KeyWriting, input: CreateKeyInput): Promise<KeyView & Readonly<{ secret: string }>>
  /** Newest first. */
  listKeys(
    context: KeyReading,
    input?: PageInput & Readonly<{ tenant?: string | undefined; name?: string | undefined }>,
  ): Promise<ListedPage & Readonly<{ keys: readonly KeyView[] }>>
  /** `key` is an id, or the name of a live key. Revoking again changes nothing. */
  revokeKey(context: KeyWriting, input: Readonly<{ key: string; tenant?: string | undefined }>): Promise<KeyView>
  /**
   * Revokes the keys that a user created, or only those that could do more than the user may. Returns their names. It checks no
   * permission: the caller may remove the user's rights.
   */
  endKeysOfUser(
    context: KeyWriting,
    input: Readonly<{ tenant: TenantId; userId: string; remaining?: Principal }>,
  ): Promise<readonly string[]>
  /** For keys that have no rights any more, within the transaction that removes them: what they have open ends. */
  noteKeysEnded(tenant: TenantId, keyIds: readonly string[], nowMs: number): void
  /**
   * Rejects with ERR_UNAUTHENTICATED, in the same words whatever is wrong with the token. Answers synchronously if the
   * token was used a moment ago.
   */
  authenticate(token: string, nowMs: number): Principal | Promise<Principal>
  /** For work that outlives the request of a key: its principal and its expiry, while it is live. */
  livePrincipal(
    tenant: TenantId,
    keyId: string,
    nowMs: number,
  ): Promise<Readonly<{ principal: Principal; expiresAtMs: number | null }> | undefined>
}>

export type IdentityDeps = Readonly<{
  store: ApiKeyStore
  roles: Pick<RoleStore, 'findRole' | 'listRoles' | 'holdRoles'>
  random: Random
  /** Committed state. */
  read: ReadTx
  /** Called when a key is used, at most once a minute per key; must queue `touchKey`, not wait for it. */
  noteUse(tenant: TenantId, keyId: string, atMs: number): void
  /** Called within the transaction that revokes it. */
  noteRevoked(tenant: TenantId, keyId: string): void
  /** Called for a key that is refused because it has expired. */
  noteExpired?(atMs: number): void
}>

export function createIdentityService(deps: IdentityDeps): IdentityService {
  const { store, random } = deps
  const authenticator = createKeyAuthenticator<ApiKey, Principal>({
    prefixOf: tokenPrefix,
    findByPrefix: (prefix) => store.findKeyByPrefix(deps.read, prefix),
    isLive: (key, nowMs) => isLive(deps, key, nowMs),
    holderOf: (key) => principalOf(deps, key),
    noteUse: ({ tenant, id }, atMs) => deps.noteUse(tenant, id, atMs),
  })

  async function end(call: KeyWriting, key: ApiKey): Promise<ApiKey> {
    const { nowMs, write } = call
    const isRevokedNow = await store.revokeKey(write, key.tenant, key.id, nowMs)
    authenticator.forget(key.id, nowMs)
    deps.noteRevoked(key.tenant, key.id)
    if (!isRevokedNow) return key
    call.record(revocationOf(key, call.principal))
    return { ...key, revokedAtMs: nowMs }
  }

  return {
    async createKey(call, input) {
      const { principal, nowMs, read, write } = call
      requirePermission(principal, 'apiKey:create')
      const tenant = keyTenant(principal, input.tenant)
      const name = checkKeyName(input.name)
      await holdRole(deps.roles, write, tenant, input.role)
      const rights = checkRights(principal, input, await grantedToGive(deps.roles, call, tenant, input.role))
      const expiresAtMs = checkExpiry(input, nowMs)
      const { keyId } = principal
      const creator = keyId === undefined ? undefined : await store.findKey(read, principal.tenant, keyId)
      if (keyId !== undefined) checkCreatorKey(creator, expiresAtMs, nowMs)
      if ((await store.findLiveKeyByName(read, tenant, name, nowMs)) !== undefined) {
        throw new AppError('ERR_ALREADY_EXISTS', 'name: a live key has this name; revoke it or choose another', {
          name,
        })
      }
      const prefix = await unusedPrefix(store, read, random)
      const secret = newToken(random, prefix)
      const key: ApiKey = {
        tenant,
        id: randomId(random, 'key'),
        prefix,
        hash: hashToken(secret),
        name,
        ...rights,
        createdAtMs: nowMs,
        createdBy: principal.actor,
        expiresAtMs,
        lastUsedAtMs: null,
        revokedAtMs: null,
        // A key for another organisation belongs to that organisation, not to the operator who created it.
        userId: tenant === principal.tenant ? (userIdOf(identityOf(principal)) ?? creator?.userId ?? null) : null,
      }
      await store.insertKey(write, tenant, key)
      call.record(creationOf(key))
      return { ...viewOf(key, nowMs), secret }
    },

    async listKeys({ principal, nowMs, read }, input = {}) {
      requirePermission(principal, 'apiKey:read')
      const tenant = keyTenant(principal, input.tenant)
      const { rows, page } = await listPage(input, newestFirst, store.listKeys(read, tenant, { text: input.name }))
      const names = new Set([...builtInRoles, ...(await deps.roles.listRoles(read, tenant)).map(({ name }) => name)])
      return { keys: rows.map((key) => withRole(viewOf(key, nowMs), names)), ...page }
    },

    async revokeKey(call, input) {
      const { principal, nowMs, read } = call
      requirePermission(principal, 'apiKey:delete')
      const tenant = keyTenant(principal, input.tenant)
      const key =
        (await store.findKey(read, tenant, input.key)) ??
        (await store.findLiveKeyByName(read, tenant, input.key, nowMs))
      if (key === undefined) throw noSuchKey(input.key)
      if (!tierAllows(principal.tier, key.tier)) {
        throw new AppError('ERR_PERMISSION_DENIED', `key: only the ${key.tier} tier may revoke this key`, {
          key: key.id,
        })
      }
      return viewOf(await end(call, key), nowMs)
    },

    async endKeysOfUser(call, { tenant, userId, remaining }) {
      const ended: string[] = []
      for (const key of await store.listKeysOfUser(call.read, tenant, userId)) {
        const granted = await grantedBy(deps.roles, call.read, tenant, key.role)
        if (remaining !== undefined && hasRightsOf(remaining, key, granted)) continue
        await end(call, key)
        ended.push(key.name)
      }
      return ended
    },

    noteKeysEnded(tenant, keyIds, nowMs) {
      for (const keyId of keyIds) {
        authenticator.forget(keyId, nowMs)
        deps.noteRevoked(tenant, keyId)
      }
    },

    authenticate(token, nowMs) {
      const principal = authenticator.authenticate(token, nowMs)
      if (principal instanceof Promise)
        return principal.then((found) => found ?? Promise.reject(unauthenticated(token)))
      return principal ?? Promise.reject(unauthenticated(token))
    },

    async livePrincipal(tenant, keyId, nowMs) {
      const key = await store.findKey(deps.read, tenant, keyId)
      if (key === undefined || !isLive(deps, key, nowMs)) return undefined
      return { principal: await principalOf(deps, key), expiresAtMs: key.expiresAtMs }
    },
  }
}

function isLive({ noteExpired }: Pick<IdentityDeps, 'noteExpired'>, key: ApiKey, nowMs: number): boolean {
  const status = keyStatus(key, nowMs)
  if (status === 'expired') noteExpired?.(key.expiresAtMs!)
  return status === 'live'
}

/** The form of a key says what it is for, whether or not such a key exists. */
const unauthenticated = (token: string): AppError =>
  new AppError(
    'ERR_UNAUTHENTICATED',
    tokenPrefix(token, 'cvk') === undefined
      ? 'The API key is missing, unknown, revoked or expired; send a valid one as a bearer token'
      : 'This is a virtual key, which is valid only for model requests; send an API key (cst_…) here, or use the virtual key at the address of a model proxy',
  )

/** The value is repeated, unless it is a secret given by mistake. */
function noSuchKey(supplied: string): AppError {
  const next = 'castellan keys list (api_key_list) shows them'
  if (tokenPrefix(supplied) !== undefined) {
    return new AppError('ERR_NOT_FOUND', `key: give the id or the name of a key, not its secret; ${next}`)
  }
  return new AppError('ERR_NOT_FOUND', `key: there is no key with the id or live name ${quoted(supplied)}; ${next}`, {
    key: supplied,
  })
}

async function unusedPrefix(store: ApiKeyStore, tx: ReadTx, random: Random): Promise<string> {
  for (let attempt = 0; attempt < 8; attempt++) {
    const prefix = newPrefix(random)
    if ((await store.findKeyByPrefix(tx, prefix)) === undefined) return prefix
  }
  throw new AppError('ERR_INTERNAL', 'no unused key prefix was found')
}

/** Scopes of a permission that no longer exists are dropped, which can only narrow. */
async function principalOf({ roles, read }: Pick<IdentityDeps, 'roles' | 'read'>, key: ApiKey): Promise<Principal> {
  const granted = await grantedBy(roles, read, key.tenant, key.role)
  return Object.freeze({
    tenant: key.tenant,
    kind: 'key',
    actor: key.name,
    ...rightsFrom(key.role, granted, key.scopes),
    tier: key.tier,
    teams: [],
    keyId: key.id,
  })
}

const creationOf = (key: ApiKey): EffectRecord => ({
  kind: 'api_key_created',
  body: {
    id: key.id,
    prefix: key.prefix,
    name: key.name,
    tenant: key.tenant,
    role: key.role,
    tier: key.tier,
    scopes: key.scopes,
    expires_at: time(key.expiresAtMs),
    created_by: key.createdBy,
    ...(key.userId !== null && { user_id: key.userId }),
  },
})

const revocationOf = (key: ApiKey, { actor }: Principal): EffectRecord => ({
  kind: 'api_key_revoked',
  body: { id: key.id, prefix: key.prefix, name: key.name, tenant: key.tenant, revoked_by: actor },
})

const time = (ms: number | null): string | null => (ms === null ? null : isoTime(ms))

const withRole = (view: KeyView, known: ReadonlySet<string>): KeyView =>
  view.status === 'live' && !known.has(view.role) ? { ...view, status: 'role_deleted' } : view

function viewOf(key: ApiKey, nowMs: number): KeyView {
  return {
    id: key.id,
    prefix: key.prefix,
    name: key.name,
    tenant: key.tenant,
    role: key.role,
    tier: key.tier,
    scopes: key.scopes,
    status: keyStatus(key, nowMs),
    created_at: isoTime(key.createdAtMs),
    created_by: key.createdBy,
    expires_at: time(key.expiresAtMs),
    last_used_at: time(key.lastUsedAtMs),
    revoked_at: time(key.revokedAtMs),
  }
}
