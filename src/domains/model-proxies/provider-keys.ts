import { AppError } from '../../contract/app-error.ts'
import type { Call, EffectRecord } from '../../contract/call.ts'
import { limits } from '../../contract/limits.ts'
import { identityOf, type Principal, type TenantId } from '../../contract/principal.ts'
import { type Scope, type Sharing, viewerOf } from '../../contract/sharing.ts'
import type { ReadTx } from '../../contract/tx.ts'
import type { UserTeams } from '../../contract/user-teams.ts'
import { isoTime } from '../../kernel/clock.ts'
import { listAtMost } from '../../kernel/list-at-most.ts'
import { type Random, randomId } from '../../kernel/random.ts'
import { checkKeyName, quoted } from '../identity/rules.ts'
import { shareScope } from '../profiles/rules.ts'
import { parseReference } from '../secrets/rules.ts'
import type { SecretService } from '../secrets/service.ts'
import { createKeyFinder } from './key-finder.ts'
import { sharingOf } from './key-sharing.ts'
import type { ProviderKey, ProviderKeyStore } from './ports.ts'
import { canUse } from './rules.ts'

type NewProviderKey = Readonly<{
  name: string
  provider: string
  /** The key itself, or a reference to a secret of the caller. */
  secret: string
  scope?: Scope | undefined
  /** Ids or names. */
  teams?: readonly string[] | undefined
  primary?: boolean | undefined
}>

type ProviderKeyDeps = Readonly<{
  store: ProviderKeyStore
  secrets: Pick<SecretService, 'put' | 'resolve' | 'requireMayRefer' | 'removeUnused'>
  teams: UserTeams
  random: Random
  /** Names of the providers that this server reaches. */
  providers: readonly string[]
  /** Whether a text is or contains something in the form of one of our own credentials. */
  isOurs(text: string): boolean
  isRevoked(tx: ReadTx, tenant: TenantId, identity: string): Promise<boolean>
  /** Called within the transaction of every change. */
  noteChange(): void
}>

type Reading = Pick<Call, 'read' | 'principal'>

export type ProviderKeyService = ReturnType<typeof createProviderKeyService>

/** Provider keys of people, teams and the organisation. Their values are secrets, and no answer contains one. */
export function createProviderKeyService(deps: ProviderKeyDeps) {
  const { store, secrets, random } = deps

  const { find, findModifiable } = createKeyFinder({
    resource: 'llmProviderApiKey',
    store,
    noSuchKey: (supplied) => noSuchKey(deps, 'key', supplied),
  })

  /** What a personal key is, only its owner decides: another value would have the owner's requests paid by another account. */
  async function findChangeable(call: Reading, idOrName: string): Promise<ProviderKey> {
    const key = await findModifiable(call, idOrName)
    if (key.sharing.scope !== 'personal' || key.sharing.author === identityOf(call.principal)) return key
    throw new AppError(
      'ERR_PERMISSION_DENIED',
      'key: this is a personal key of another owner, whom alone it serves; you can delete it with provider_key_delete, not change it',
      { field: 'key' },
    )
  }

  async function viewOf(read: ReadTx, key: ProviderKey) {
    const { sharing } = key
    const teams = []
    for (const id of sharing.teams) {
      const team = await deps.teams.findTeam(read, key.tenant, id)
      if (team !== undefined) teams.push({ id: team.id, name: team.name })
    }
    const isOwnerless = sharing.scope === 'personal' && (await deps.isRevoked(read, key.tenant, sharing.author))
    return {
      id: key.id,
      name: key.name,
      provider: key.provider,
      scope: sharing.scope,
      teams,
      owner: sharing.author,
      primary: key.isPrimary,
      status: isOwnerless ? ('ownerless' as const) : ('live' as const),
      created_at: isoTime(key.createdAtMs),
      created_by: key.createdBy,
      rotated_at: key.rotatedAtMs === null ? null : isoTime(key.rotatedAtMs),
    }
  }

  async function requireUnusedName(read: ReadTx, tenant: TenantId, name: string, sharing: Sharing): Promise<void> {
    const others = await store.findNamed(read, tenant, name)
    if (!others.some((other) => shareScope(other.sharing, sharing))) return
    const message = 'name: a provider key of this scope has this name; choose another'
    throw new AppError('ERR_ALREADY_EXISTS', message, { name })
  }

  /** One key of a scope is primary for a provider. */
  async function takeOver({ write, read, principal }: Call, key: ProviderKey): Promise<void> {
    const everyone = { identity: '', teams: [], seesEveryTeam: true, seesEveryPersonal: true }
    const filter = { providers: [key.provider], limit: limits.providerKeyListMax }
    for (const other of await store.listKeys(read, principal.tenant, everyone, filter)) {
      if (other.id === key.id || !other.isPrimary || !shareScope(other.sharing, key.sharing)) continue
      await store.saveKey(write, principal.tenant, { ...other, isPrimary: false })
    }
  }

  /** The stored form of a value: a secret of the caller that is removed with the key, or the reference that the caller passed. */
  async function keep(
    call: Call,
    { name, provider }: Pick<ProviderKey, 'name' | 'provider'>,
    secret: string,
  ): Promise<Pick<ProviderKey, 'secret' | 'ownsSecret'>> {
    const { principal, read, write, nowMs } = call
    const reference = parseReference(secret)
    if (reference === undefined) {
      if (principal.kind === 'agent') throw plainFromAgent()
      const value = checkProviderKey(deps, secret.replace(/\r?\n$/, ''))
      const purpose = `Key for the provider ${provider}: ${name}`
      const made = await secrets.put(write, principal.tenant, { owner: identityOf(principal), purpose, value, nowMs })
      return { secret: made, ownsSecret: true }
    }
    if (reference.kind !== 'secret') throw notOfTheServer()
    await secrets.requireMayRefer(read, principal, 'secret', secret)
    checkProviderKey(deps, await secrets.resolve(read, principal.tenant, secret))
    return { secret, ownsSecret: false }
  }

  async function discard({ write, principal }: Call, key: ProviderKey): Promise<void> {
    if (key.ownsSecret) await secrets.removeUnused(write, principal.tenant, key.secret)
  }

  return {
    async create(call: Call, input: NewProviderKey) {
      const { principal, nowMs, read, write } = call
      const { tenant } = principal
      const name = checkKeyName(input.name)
      if (!deps.providers.includes(input.provider)) {
        const message = `provider: there is no such provider; this server has ${deps.providers.join(', ')}`
        throw new AppError('ERR_NOT_FOUND', message, { field: 'provider' })
      }
      const sharing = await sharingOf(deps.teams, call, 'llmProviderApiKey', input)
      await requireUnusedName(read, tenant, name, sharing)
      if ((await store.countOf(read, tenant, sharing.author)) >= limits.providerKeysOfAuthorMax) {
        const message = `You have reached the limit of ${limits.providerKeysOfAuthorMax} provider keys. Delete those that are not needed.`
        throw new AppError('ERR_QUOTA_EXCEEDED', message, { limit: limits.providerKeysOfAuthorMax })
      }
      const { provider } = input
      const key: ProviderKey = {
        tenant,
        id: randomId(random, 'pkey'),
        name,
        provider,
        sharing,
        isPrimary: input.primary ?? false,
        ...(await keep(call, { name, provider }, input.secret)),
        createdAtMs: nowMs,
        createdBy: principal.actor,
        rotatedAtMs: null,
      }
      await store.insertKey(write, tenant, key)
      if (key.isPrimary) await takeOver(call, key)
      deps.noteChange()
      call.record(effectOf('provider_key_created', key, principal))
      return await viewOf(read, key)
    },

    async list({ read, principal }: Reading) {
      const viewer = viewerOf(principal, 'llmProviderApiKey')
      const { rows, truncated } = await listAtMost(limits.providerKeyListMax, (limit) =>
        store.listKeys(read, principal.tenant, viewer, { limit }),
      )
      const keys = []
      for (const key of rows) keys.push(await viewOf(read, key))
      return { keys, truncated }
    },

    async update(
      call: Call,
      input: Readonly<{ key: string; name?: string | undefined; primary?: boolean | undefined }>,
    ) {
      const { principal, read, write } = call
      const before = await findChangeable(call, input.key)
      const name = input.name === undefined ? before.name : checkKeyName(input.name)
      if (name !== before.name) await requireUnusedName(read, principal.tenant, name, before.sharing)
      const after = { ...before, name, isPrimary: input.primary ?? before.isPrimary }
      await store.saveKey(write, principal.tenant, after)
      if (after.isPrimary) await takeOver(call, after)
      deps.noteChange()
      call.record(effectOf('provider_key_updated', after, principal))
      return await viewOf(read, after)
    },

    /** The previous value is no longer used, and is removed if it was passed with the key. */
    async rotate(call: Call, input: Readonly<{ key: string; secret: string }>) {
      const { principal, nowMs, read, write } = call
      const before = await findChangeable(call, input.key)
      const stored = await keep(call, before, input.secret)
      const after = { ...before, ...stored, rotatedAtMs: nowMs }
      await store.saveKey(write, principal.tenant, after)
      if (after.secret !== before.secret) await discard(call, before)
      deps.noteChange()
      call.record(effectOf('provider_key_rotated', after, principal))
      return await viewOf(read, after)
    },

    async remove(call: Call, input: Readonly<{ key: string }>) {
      const { principal, write } = call
      const key = await findModifiable(call, input.key)
      await store.deleteKey(write, principal.tenant, key.id)
      await discard(call, key)
      deps.noteChange()
      call.record(effectOf('provider_key_deleted', key, principal))
      return { id: key.id, deleted: true as const }
    },

    /**
     * Ids, by provider, of the keys that a virtual key may name: all its holders can use them anyway, so that nobody
     * spends another's money.
     */
    async chosenFor(
      call: Reading,
      names: readonly string[],
      holders: Sharing,
    ): Promise<Readonly<Record<string, string>>> {
      const chosen: Record<string, string> = {}
      for (const name of names) {
        const { id, provider, sharing } = await find(call, name).catch((error: unknown) => {
          if (!(error instanceof AppError) || error.code !== 'ERR_NOT_FOUND') throw error
          throw noSuchKey(deps, 'provider_keys', name)
        })
        if (!serves(call.principal, sharing, holders)) {
          const message = `provider_keys: the key ${quoted(name)} has the scope ${sharing.scope}, so some holders of a virtual key with the scope ${holders.scope} may not use it. Name a provider key of the organisation or of the same teams.`
          throw new AppError('ERR_PERMISSION_DENIED', message, { field: 'provider_keys' })
        }
        if (chosen[provider] !== undefined) {
          const message = `provider_keys: two of them are for the provider '${provider}'; name one`
          throw new AppError('ERR_INVALID_INPUT', message, { field: 'provider_keys' })
        }
        chosen[provider] = id
      }
      return chosen
    },
  }
}

/**
 * Whether all holders of something with the second sharing can use a key with the first. `principal` is the author of
 * the second.
 */
function serves(principal: Principal, key: Sharing, { scope, teams }: Sharing): boolean {
  if (scope === 'personal') return canUse(principal, key)
  if (key.scope === 'org') return true
  return scope === 'team' && key.scope === 'team' && teams.every((team) => key.teams.includes(team))
}

const PRINTABLE = /^[\x21-\x7e]+$/

/** A value that is valid in a header, and is not one of our own credentials, which would be sent to the provider. */
function checkProviderKey({ isOurs }: Pick<ProviderKeyDeps, 'isOurs'>, value: string): string {
  if (isOurs(value)) {
    throw new AppError(
      'ERR_INVALID_INPUT',
      'secret: this is or contains a key of this server, not one of a provider.',
      {
        field: 'secret',
      },
    )
  }
  if (value.length <= limits.providerKeyCharsMax && PRINTABLE.test(value)) return value
  const rule = `1 to ${limits.providerKeyCharsMax} printable ASCII characters without spaces`
  throw new AppError('ERR_INVALID_INPUT', `secret: a key of a provider has ${rule}.`, {
    field: 'secret',
    constraint: rule,
  })
}

const plainFromAgent = (): AppError =>
  new AppError(
    'ERR_PERMISSION_DENIED',
    'secret: an agent cannot enter a key. Ask a person for it with secret_link_create, and pass the reference here.',
    { field: 'secret' },
  )

const notOfTheServer = (): AppError =>
  new AppError(
    'ERR_INVALID_INPUT',
    'secret: pass the key or a reference such as secret:sec_…. Configure a key from the environment of the server in models.providers.',
    { field: 'secret' },
  )

/** The message repeats the value, unless it may be a secret passed by mistake: names of keys are short. */
function noSuchKey({ isOurs }: Pick<ProviderKeyDeps, 'isOurs'>, field: string, supplied: string): AppError {
  const next = 'provider_key_list shows them'
  if (isOurs(supplied) || supplied.length > 40) {
    return new AppError('ERR_NOT_FOUND', `${field}: there is no such provider key that you can see; ${next}`, { field })
  }
  const message = `${field}: there is no provider key that you can see with the id or name ${quoted(supplied)}; ${next}`
  return new AppError('ERR_NOT_FOUND', message, { field })
}

const effectOf = (kind: string, key: ProviderKey, { actor }: Principal): EffectRecord => ({
  kind,
  body: {
    id: key.id,
    name: key.name,
    provider: key.provider,
    scope: key.sharing.scope,
    teams: key.sharing.teams,
    owner: key.sharing.author,
    primary: key.isPrimary,
    secret: key.secret,
    by: actor,
  },
})
