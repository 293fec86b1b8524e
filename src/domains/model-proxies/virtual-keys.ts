import { AppError } from '../../contract/app-error.ts'
import type { Call, EffectRecord } from '../../contract/call.ts'
import { limits } from '../../contract/limits.ts'
import { isPermitted, type Permission } from '../../contract/permissions.ts'
import { identityOf, type Principal, type TenantId } from '../../contract/principal.ts'
import { type Scope, type Sharing, viewerOf } from '../../contract/sharing.ts'
import type { ReadTx } from '../../contract/tx.ts'
import type { UserTeams } from '../../contract/user-teams.ts'
import { isoTime } from '../../kernel/clock.ts'
import { listAtMost } from '../../kernel/list-at-most.ts'
import { type Random, randomId } from '../../kernel/random.ts'
import { createKeyAuthenticator } from '../identity/key-authenticator.ts'
import { checkCreatorKey, checkExpiry, checkKeyName, keyStatus, quoted } from '../identity/rules.ts'
import { hashToken, newPrefix, newToken, tokenPrefix } from '../identity/token.ts'
import { shareScope } from '../profiles/rules.ts'
import type { ProfileService } from '../profiles/service.ts'
import { createKeyFinder } from './key-finder.ts'
import { sharingOf } from './key-sharing.ts'
import type { KeyGrants, VirtualKey, VirtualKeyStore } from './ports.ts'
import type { ProviderKeyService } from './provider-keys.ts'
import { VIRTUAL_KEY_PREFIX } from './rules.ts'

type NewVirtualKey = Readonly<{
  name: string
  scope?: Scope | undefined
  /** Ids or names. */
  teams?: readonly string[] | undefined
  /** Ids or names of model proxies. */
  proxies?: readonly string[] | undefined
  providers?: readonly string[] | undefined
  models?: readonly string[] | undefined
  /** Ids or names of provider keys. */
  provider_keys?: readonly string[] | undefined
  expires_in?: string | undefined
  expires_at?: string | undefined
}>

/** The caller of a virtual key, and the key's restrictions. */
export type VirtualKeyHolder = Readonly<{ principal: Principal; virtualKey: string; grants: KeyGrants }>

type VirtualKeyDeps = Readonly<{
  store: VirtualKeyStore
  sharing: Pick<ProfileService, 'find'>
  teams: UserTeams
  random: Random
  /** Committed state. */
  read: ReadTx
  /** Names of the providers that this server reaches. */
  providers: readonly string[]
  providerKeys: Pick<ProviderKeyService, 'chosenFor'>
  /** The identity's present principal; undefined if it was revoked, or may not have keys. */
  principalOf(tenant: TenantId, identity: string): Promise<Principal | undefined>
  isRevoked(tx: ReadTx, tenant: TenantId, identity: string): Promise<boolean>
  /** The expiry of the caller's key, if it has one. */
  creatorKey(call: Pick<Call, 'read' | 'principal'>): Promise<Parameters<typeof checkCreatorKey>[0]>
  noteUse(tenant: TenantId, keyId: string, atMs: number): void
  /** Called within the transaction that revokes it. */
  noteRevoked(tenant: TenantId, keyId: string): void
}>

export type VirtualKeyService = ReturnType<typeof createVirtualKeyService>

/** Keys for models alone: for some proxies, providers and models, until some time. */
export function createVirtualKeyService(deps: VirtualKeyDeps) {
  const { store, random } = deps
  const authenticator = createKeyAuthenticator<VirtualKey, VirtualKeyHolder>({
    prefixOf: (token) => tokenPrefix(token, 'cvk'),
    findByPrefix: (prefix) => store.findByPrefix(deps.read, prefix),
    isLive: (key, nowMs) => keyStatus(key, nowMs) === 'live',
    holderOf: (key) => holderOf(deps, key),
    noteUse: ({ tenant, id }, atMs) => deps.noteUse(tenant, id, atMs),
  })

  const { find, findModifiable } = createKeyFinder({ resource: 'llmVirtualKey', store, noSuchKey })

  async function viewOf({ read, nowMs }: Pick<Call, 'read' | 'nowMs'>, key: VirtualKey) {
    const { sharing, grants } = key
    const teams = []
    for (const id of sharing.teams) {
      const team = await deps.teams.findTeam(read, key.tenant, id)
      if (team !== undefined) teams.push({ id: team.id, name: team.name })
    }
    const status = keyStatus(key, nowMs)
    const isOwnerless = status === 'live' && (await hasNoOwner(deps, read, key))
    return {
      id: key.id,
      prefix: key.prefix,
      name: key.name,
      scope: sharing.scope,
      teams,
      owner: sharing.author,
      ...grantsView(grants),
      status: isOwnerless ? ('ownerless' as const) : status,
      created_at: isoTime(key.createdAtMs),
      created_by: key.createdBy,
      rotated_at: time(key.rotatedAtMs),
      expires_at: time(key.expiresAtMs),
      last_used_at: time(key.lastUsedAtMs),
      revoked_at: time(key.revokedAtMs),
    }
  }

  async function newSecret(read: ReadTx): Promise<Readonly<{ prefix: string; secret: string; hash: string }>> {
    for (let attempt = 0; attempt < 8; attempt++) {
      const prefix = newPrefix(random)
      if ((await store.findByPrefix(read, prefix)) !== undefined) continue
      const secret = newToken(random, prefix, 'cvk')
      return { prefix, secret, hash: hashToken(secret) }
    }
    throw new AppError('ERR_INTERNAL', 'no unused key prefix was found')
  }

  async function grantsOf(call: Call, input: NewVirtualKey, sharing: Sharing): Promise<KeyGrants> {
    const proxies = []
    for (const name of input.proxies ?? []) {
      const proxy = await deps.sharing.find(call.read, call.principal, 'llm_proxy', name)
      if (proxy === undefined) throw notFound('proxies', 'model proxy that you can see; list_llm_proxies lists them')
      proxies.push(proxy.id)
    }
    for (const name of input.providers ?? []) {
      if (deps.providers.includes(name)) continue
      throw notFound('providers', `provider; this server has ${deps.providers.join(', ')}`)
    }
    return {
      proxies: input.proxies === undefined ? null : [...new Set(proxies)],
      providers: input.providers === undefined ? null : [...new Set(input.providers)],
      models: input.models === undefined ? null : [...new Set(input.models)],
      providerKeys:
        input.provider_keys === undefined
          ? null
          : await deps.providerKeys.chosenFor(call, input.provider_keys, sharing),
    }
  }

  return {
    /** `secret` is the whole token, shown here and never again. */
    async create(call: Call, input: NewVirtualKey) {
      const { principal, nowMs, read, write } = call
      const { tenant } = principal
      requireMayMake(principal)
      const name = checkKeyName(input.name)
      const sharing = await sharingOf(deps.teams, call, 'llmVirtualKey', input)
      const grants = await grantsOf(call, input, sharing)
      const expiresAtMs = checkExpiry(input, nowMs)
      if (principal.keyId !== undefined) checkCreatorKey(await deps.creatorKey(call), expiresAtMs, nowMs)
      if ((await deps.principalOf(tenant, sharing.author)) === undefined) throw cannotHaveKeys()
      const named = await store.findNamed(read, tenant, name)
      if (named.some((other) => shareScope(other.sharing, sharing) && keyStatus(other, nowMs) === 'live')) {
        throw new AppError('ERR_ALREADY_EXISTS', 'name: a live key of this scope has this name; choose another', {
          name,
        })
      }
      if ((await store.countOf(read, tenant, sharing.author)) >= limits.virtualKeysOfAuthorMax) {
        const message = `You have reached the limit of ${limits.virtualKeysOfAuthorMax} virtual keys. Revoke those that are not needed.`
        throw new AppError('ERR_QUOTA_EXCEEDED', message, { limit: limits.virtualKeysOfAuthorMax })
      }
      const { secret, ...stored } = await newSecret(read)
      const key: VirtualKey = {
        tenant,
        id: randomId(random, VIRTUAL_KEY_PREFIX.slice(0, -1)),
        ...stored,
        name,
        sharing,
        grants,
        createdAtMs: nowMs,
        createdBy: principal.actor,
        rotatedAtMs: null,
        expiresAtMs,
        lastUsedAtMs: null,
        revokedAtMs: null,
      }
      await store.insertKey(write, tenant, key)
      call.record(creationOf(key))
      return { ...(await viewOf(call, key)), secret }
    },

    async list(call: Pick<Call, 'read' | 'principal' | 'nowMs'>) {
      const { read, principal } = call
      const viewer = viewerOf(principal, 'llmVirtualKey')
      const { rows, truncated } = await listAtMost(limits.virtualKeyListMax, (most) =>
        store.listKeys(read, principal.tenant, viewer, most),
      )
      const keys = []
      for (const key of rows) keys.push(await viewOf(call, key))
      return { keys, truncated }
    },

    async get(call: Pick<Call, 'read' | 'principal' | 'nowMs'>, { key }: Readonly<{ key: string }>) {
      return await viewOf(call, await find(call, key))
    },

    /** The former secret becomes invalid. Requests in progress continue. */
    async rotate(call: Call, input: Readonly<{ key: string }>) {
      const { principal, nowMs, read, write } = call
      requireMayMake(principal)
      const key = await findModifiable(call, input.key)
      requireOwnOrShared(principal, key)
      const { secret, ...stored } = await newSecret(read)
      if (!(await store.replaceSecret(write, key.tenant, key.id, { ...stored, atMs: nowMs }))) {
        throw new AppError('ERR_INVALID_INPUT', 'key: this key is revoked; create another', { field: 'key' })
      }
      authenticator.forget(key.id, nowMs)
      const { id, name } = key
      call.record({ kind: 'virtual_key_rotated', body: { id, name, prefix: stored.prefix, by: principal.actor } })
      return { ...(await viewOf(call, { ...key, ...stored, rotatedAtMs: nowMs })), secret }
    },

    /** Revoking again changes nothing. */
    async revoke(call: Call, input: Readonly<{ key: string }>) {
      const { principal, nowMs, write } = call
      const key = await findModifiable(call, input.key)
      const { tenant, id, name, prefix } = key
      const isRevokedNow = await store.revokeKey(write, tenant, id, nowMs)
      authenticator.forget(id, nowMs)
      deps.noteRevoked(tenant, id)
      if (isRevokedNow) call.record({ kind: 'virtual_key_revoked', body: { id, name, prefix, by: principal.actor } })
      return await viewOf(call, isRevokedNow ? { ...key, revokedAtMs: nowMs } : key)
    },

    /** Rejects with ERR_UNAUTHENTICATED, in the same words whatever is wrong with the token. */
    authenticate(token: string, nowMs: number): VirtualKeyHolder | Promise<VirtualKeyHolder> {
      const holder = authenticator.authenticate(token, nowMs)
      if (holder instanceof Promise) return holder.then((found) => found ?? Promise.reject(unknownKey()))
      return holder ?? Promise.reject(unknownKey())
    },

    /** Undefined if the caller sees none of that id or name. */
    async seen(read: ReadTx, principal: Principal, idOrName: string) {
      return await find({ read, principal }, idOrName).catch((error: unknown) => {
        if (error instanceof AppError && error.code === 'ERR_NOT_FOUND') return undefined
        throw error
      })
    },

    /** Clears the cache: an owner was revoked, or has lost a right. */
    forget: authenticator.forgetAll,
  }
}

const FOR_MODELS: ReadonlySet<Permission> = new Set(['llmProxy:read'])

/** A `personal` key acts as its author; another acts as itself, and belongs to its teams. Either may only reach models. */
async function holderOf(deps: VirtualKeyDeps, key: VirtualKey): Promise<VirtualKeyHolder | undefined> {
  const { tenant, id, name, sharing, grants } = key
  if (await hasNoOwner(deps, deps.read, key)) return undefined
  const rights = { scopes: [...FOR_MODELS], tier: 'user' } as const
  if (sharing.scope !== 'personal') {
    const principal: Principal = Object.freeze({
      ...{ tenant, kind: 'key', actor: name, role: 'member', permissions: FOR_MODELS, ...rights },
      ...{ teams: sharing.teams, keyId: id },
    })
    return { principal, virtualKey: id, grants }
  }
  const author = await deps.principalOf(tenant, sharing.author)
  if (author === undefined) return undefined
  const permissions = new Set([...FOR_MODELS].filter((permission) => isPermitted(author, permission)))
  return { principal: Object.freeze({ ...author, ...rights, permissions, virtualKeyId: id }), virtualKey: id, grants }
}

async function hasNoOwner(
  { isRevoked }: Pick<VirtualKeyDeps, 'isRevoked'>,
  read: ReadTx,
  key: VirtualKey,
): Promise<boolean> {
  const { scope, author, teams } = key.sharing
  if (scope === 'personal') return await isRevoked(read, key.tenant, author)
  return scope === 'team' && teams.length === 0
}

/** A personal key acts as its owner, so nobody else gets its secret. */
function requireOwnOrShared(principal: Principal, { sharing }: VirtualKey): void {
  if (sharing.scope !== 'personal' || sharing.author === identityOf(principal)) return
  const message =
    'key: this is a personal key of another owner, and acts as that owner; you can revoke it with virtual_key_revoke, not rotate it'
  throw new AppError('ERR_PERMISSION_DENIED', message, { field: 'key' })
}

/** A run ends and has its own limits; a key that it created would outlive both. */
function requireMayMake(principal: Principal): void {
  if (principal.kind === 'agent') {
    throw new AppError('ERR_PERMISSION_DENIED', 'An agent cannot create virtual keys. A person or an API key can.')
  }
  if (isPermitted(principal, 'llmProxy:read')) return
  const message = "A virtual key cannot do more than you: creating one needs the permission 'llmProxy:read'."
  throw new AppError('ERR_PERMISSION_DENIED', message, { permission: 'llmProxy:read' })
}

const unknownKey = (): AppError =>
  new AppError('ERR_UNAUTHENTICATED', 'The virtual key is unknown, revoked or expired; virtual_key_list shows yours')

const cannotHaveKeys = (): AppError =>
  new AppError('ERR_PERMISSION_DENIED', 'Only people and API keys can create virtual keys.')

/** The message repeats the value, unless it is a secret passed by mistake. */
function noSuchKey(supplied: string): AppError {
  const next = 'virtual_key_list shows them'
  if (tokenPrefix(supplied, 'cvk') !== undefined) {
    return new AppError('ERR_NOT_FOUND', `key: give the id or the name of a key, not its secret; ${next}`)
  }
  const message = `key: there is no virtual key that you can see with the id or name ${quoted(supplied)}; ${next}`
  return new AppError('ERR_NOT_FOUND', message, { key: supplied })
}

const notFound = (field: string, what: string): AppError =>
  new AppError('ERR_NOT_FOUND', `${field}: there is no such ${what}`, { field })

const grantsView = ({ proxies, providers, models, providerKeys }: KeyGrants) => ({
  proxies,
  providers,
  models,
  provider_keys: providerKeys === null ? null : Object.values(providerKeys),
})

const time = (ms: number | null): string | null => (ms === null ? null : isoTime(ms))

const creationOf = (key: VirtualKey): EffectRecord => ({
  kind: 'virtual_key_created',
  body: {
    id: key.id,
    prefix: key.prefix,
    name: key.name,
    scope: key.sharing.scope,
    teams: key.sharing.teams,
    owner: key.sharing.author,
    ...grantsView(key.grants),
    expires_at: time(key.expiresAtMs),
    created_by: key.createdBy,
  },
})
