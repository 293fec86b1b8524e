import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import type { Database } from '../../contract/database.ts'
import { limits } from '../../contract/limits.ts'
import { listPage, newestFirst, type PageInput } from '../../contract/list-page.ts'
import { administers } from '../../contract/permissions.ts'
import { identityOf, isPlatformOperator, type Principal, type TenantId } from '../../contract/principal.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'
import { isoTime } from '../../kernel/clock.ts'
import { counted } from '../../kernel/counted.ts'
import { type Random, randomId } from '../../kernel/random.ts'
import { open, seal } from './cipher.ts'
import { createOpenedValues } from './opened-values.ts'
import type { OutsideSecrets, SecretKey, SecretKeys, SecretStore, SecretUse, StoredSecret } from './ports.ts'
import { aadOf, checkValue, parseReference, referenceTo } from './rules.ts'

type SecretDeps = Readonly<{
  store: SecretStore
  keys: SecretKeys
  outside: OutsideSecrets
  database: Pick<Database, 'read' | 'write'>
  tenants(): Promise<readonly TenantId[]>
  /** The referrers of a secret of the tenant. */
  usesOf(tx: ReadTx | WriteTx, tenant: TenantId, reference: string): Promise<readonly SecretUse[]>
  random: Random
}>

type NewSecret = Readonly<{
  /** If it was chosen before. */
  reference?: `secret:${string}`
  owner: string
  purpose: string
  value?: string
  /** The session with which it ends. */
  sessionId?: string
  nowMs: number
}>

/** Values that no answer, log entry or export shows. A caller that needs one stores a reference, and resolves it on use. */
export type SecretService = ReturnType<typeof createSecretService>

export function createSecretService(deps: SecretDeps) {
  const { store, random, database } = deps
  const openedValues = createOpenedValues()

  const newReference = (): `secret:${string}` => referenceTo(randomId(random, 'sec'))

  /** Returns the reference to it. Without a value it exists, and must be entered. */
  async function put(
    tx: WriteTx,
    tenant: TenantId,
    { reference = newReference(), value, nowMs, ...input }: NewSecret,
  ): Promise<`secret:${string}`> {
    const id = parseReference(reference)!.name
    const purpose = input.purpose.slice(0, limits.secretPurposeCharsMax)
    const empty = { ...input, tenant, id, purpose, keyId: '', sealed: '' }
    const secret = { ...empty, createdAtMs: nowMs, updatedAtMs: nowMs }
    await store.putSecret(tx, tenant, value === undefined ? secret : await withValue(secret, value))
    return reference
  }

  async function withValue(secret: StoredSecret, value: string): Promise<StoredSecret> {
    const [key] = await deps.keys.load()
    const sealed = seal(key!, aadOf(secret.tenant, secret.id), checkValue('value', value), random)
    return { ...secret, keyId: key!.id, sealed }
  }

  /** Returns whether it still existed. */
  async function enter(tx: WriteTx, tenant: TenantId, id: string, value: string, nowMs: number): Promise<boolean> {
    const secret = await store.findSecret(tx, tenant, id)
    if (secret === undefined) return false
    await store.putSecret(tx, tenant, { ...(await withValue(secret, value)), updatedAtMs: nowMs })
    return true
  }

  /**
   * Whether a caller may refer to it: its own secrets, and for an operator the server's environment and files. A plain text is
   * not a reference.
   */
  async function requireMayRefer(
    tx: ReadTx | WriteTx,
    principal: Principal,
    field: string,
    text: string,
  ): Promise<void> {
    const reference = parseReference(text)
    if (reference === undefined) return
    if (reference.kind === 'secret') {
      const secret = await store.findSecret(tx, principal.tenant, reference.name)
      if (secret?.owner !== identityOf(principal) || secret.sessionId !== undefined) {
        const message = `${field}: you have no such secret. secret_list shows yours.`
        throw new AppError('ERR_NOT_FOUND', message, { field })
      }
      const owning = (await deps.usesOf(tx, principal.tenant, text)).find(({ owns }) => owns === true)
      if (owning === undefined) return
      const message = `${field}: this secret belongs to ${useNames[owning.kind]} '${owning.name}', and nothing else can refer to it. Enter the value again with secret_link_create.`
      throw new AppError('ERR_PERMISSION_DENIED', message, { field })
    }
    if (isPlatformOperator(principal)) return
    throw new AppError(
      'ERR_PERMISSION_DENIED',
      `${field}: only the operator of this installation may refer to its environment and files. Use secret_link_create to have the value entered.`,
      { field },
    )
  }

  /** The value that a text refers to, or the text itself. */
  async function resolve(tx: ReadTx, tenant: TenantId, text: string): Promise<string> {
    const reference = parseReference(text)
    if (reference === undefined) return text
    const { kind, name } = reference
    if (kind === 'secret') return await reveal(tx, tenant, name)
    const value = kind === 'env' ? deps.outside.variable(name) : await deps.outside.file(name)
    if (value !== undefined) return value
    const what = kind === 'env' ? `The environment variable ${name} is not set` : `The file ${name} cannot be read`
    throw new AppError('ERR_SECRET_UNAVAILABLE', `${what} where the server runs.`, { reference: text })
  }

  async function reveal(tx: ReadTx, tenant: TenantId, id: string): Promise<string> {
    const secret = await store.findSecret(tx, tenant, id)
    if (secret === undefined) {
      throw new AppError('ERR_SECRET_UNAVAILABLE', 'The secret was deleted. Enter its value again.', { secret: id })
    }
    if (secret.sealed === '') {
      throw new AppError('ERR_SECRET_UNAVAILABLE', 'The secret has not been entered yet. Open its link.', {
        secret: id,
      })
    }
    const value = openWith(await deps.keys.load(), secret)
    if (value !== undefined) return value
    throw new AppError(
      'ERR_SECRET_UNAVAILABLE',
      'The secret cannot be decrypted with the keys that this server has. Restore secret-key.json or CASTELLAN_SECRET_KEY, or enter the value again.',
      { secret: id, key: secret.keyId },
    )
  }

  /**
   * The values of a tenant, for redaction alone: nothing is recorded as a use. Shorter ones occur in texts by chance, and what cannot be
   * decrypted is left out. `values` is the same array while nothing changed. `isWhole` is false if there are more.
   */
  async function valuesOf(tx: ReadTx | WriteTx, tenant: TenantId) {
    const found = await store.listOfOtherKeys(tx, tenant, '', '', limits.redactedSecretsMax + 1)
    const keys = found.length === 0 ? [] : await deps.keys.load()
    const rows = found.slice(0, limits.redactedSecretsMax)
    const values = openedValues.of(tenant, rows, keys, () =>
      rows.flatMap((secret) => openWith(keys, secret) ?? []).filter(isLongEnough),
    )
    return { values, isWhole: found.length <= limits.redactedSecretsMax }
  }

  /** For short-lived values that are stored elsewhere: encrypted like secrets, and bound to their tenant and purpose. */
  async function sealText(tenant: TenantId, purpose: string, value: string): Promise<string> {
    const [key] = await deps.keys.load()
    return `${key!.id}:${seal(key!, aadOf(tenant, purpose), checkValue('value', value), random)}`
  }

  /** Undefined if its key no longer exists. */
  async function openText(tenant: TenantId, purpose: string, text: string): Promise<string | undefined> {
    const [keyId = '', sealed = ''] = text.split(':')
    const key = (await deps.keys.load()).find(({ id }) => id === keyId)
    return key && open(key, aadOf(tenant, purpose), sealed)
  }

  /** References to the secrets of an owner's open sessions, newest first. */
  async function ofSessions(tx: ReadTx, tenant: TenantId, owner: string, nowMs: number): Promise<string[]> {
    const found = await store.listOfSessions(tx, tenant, owner, nowMs, limits.userSessionsPerUserMax)
    return found.map(({ id }) => referenceTo(id))
  }

  /** Removes only secrets in the store; a plain text or another reference is left alone. */
  async function remove(tx: WriteTx, tenant: TenantId, text: string): Promise<void> {
    const reference = parseReference(text)
    if (reference?.kind === 'secret') await store.deleteSecret(tx, tenant, reference.name)
  }

  /** The same for secrets of something that was removed, unless something else of the tenant refers to them. */
  async function removeUnused(tx: WriteTx, tenant: TenantId, text: string): Promise<void> {
    if (parseReference(text)?.kind !== 'secret') return
    if ((await deps.usesOf(tx, tenant, text)).length === 0) await remove(tx, tenant, text)
  }

  /** The caller's own; administrators see everybody's. */
  async function list(
    { principal, read }: Pick<Call, 'principal' | 'read'>,
    input: PageInput & Readonly<{ purpose?: string | undefined }>,
  ) {
    const owner = administers(principal, 'secret') ? undefined : identityOf(principal)
    const found = store.listSecrets(read, principal.tenant, { owner, text: input.purpose })
    const { rows, page } = await listPage(input, newestFirst, found)
    return { secrets: rows.map(viewOf), ...page }
  }

  /** The caller's own, and for administrators anybody's. Refused while something refers to it. */
  async function deleteOne(call: Pick<Call, 'principal' | 'write' | 'record'>, { id }: Readonly<{ id: string }>) {
    const { principal, write } = call
    const { tenant } = principal
    const secret = await store.findSecret(write, tenant, parseReference(id)?.name ?? id)
    const isTheirs = secret?.owner === identityOf(principal) || administers(principal, 'secret')
    if (secret === undefined || !isTheirs || secret.sessionId !== undefined) {
      throw new AppError('ERR_NOT_FOUND', 'id: you have no such secret. secret_list shows yours.', { field: 'id' })
    }
    const uses = await deps.usesOf(write, tenant, referenceTo(secret.id))
    if (uses.length > 0) {
      const named = uses.slice(0, USES_NAMED_MAX).map(({ kind, name }) => `${useNames[kind]} '${name}'`)
      const more = uses.length > named.length ? ` and ${uses.length - named.length} more` : ''
      throw new AppError('ERR_SECRET_IN_USE', `The secret is in use: ${named.join(', ')}${more}.`, {
        id: secret.id,
        used_by: uses.slice(0, USES_NAMED_MAX).map(({ kind, id: usedBy, name }) => ({ kind, id: usedBy, name })),
      })
    }
    await store.deleteSecret(write, tenant, secret.id)
    call.record({ kind: 'secret_deleted', body: { secret_id: secret.id, owner: secret.owner } })
    return { id: secret.id, deleted: true as const }
  }

  /** Encrypts every secret of every tenant with a new key, and removes the old ones once nothing needs them. */
  async function rotate(call: Pick<Call, 'principal' | 'signal' | 'progress' | 'record' | 'warn'>) {
    if (!isPlatformOperator(call.principal)) {
      throw new AppError('ERR_PERMISSION_DENIED', 'Only the operator of this installation may rotate its key.')
    }
    await deps.keys.add?.()
    const keys = await deps.keys.load()
    const counts = { rotated: 0, unreadable: 0 }
    for (const tenant of await deps.tenants()) {
      for (let after = ''; !call.signal.aborted; ) {
        const last = await database.write(tenant, (tx) => rotateBatch(deps, tx, tenant, keys, after, counts))
        if (last === undefined) break
        after = last
        call.progress({
          progress: counts.rotated,
          message: `${counted(counts.rotated, 'secret is', 'secrets are')} encrypted with the new key`,
        })
      }
    }
    if (call.signal.aborted) throw new AppError('ERR_CANCELLED', 'The rotation was stopped. Rotate again to finish it.')
    if (counts.unreadable === 0) await deps.keys.keepFirst?.()
    else call.warn('Some secrets cannot be decrypted with any available key. They and the old keys stay unchanged.')
    const body = { key: keys[0]!.id, ...counts }
    call.record({ kind: 'secrets_rotated', body })
    return body
  }

  return {
    ...{ newReference, put, enter, requireMayRefer, resolve, valuesOf, ofSessions, sealText, openText },
    ...{ remove, removeUnused },
    ...{ list, deleteOne, rotate },
  }
}

const isLongEnough = (value: string): boolean => value.length >= limits.redactedSecretCharsMin
const USES_NAMED_MAX = 10
const useNames: Readonly<Record<SecretUse['kind'], string>> = {
  mcp_server: 'the MCP server',
  mcp_deployment: 'a deployment of the MCP server',
  provider_key: 'the provider key',
}

/** Returns the last id of the batch; undefined if none is left. */
async function rotateBatch(
  { store, random }: Pick<SecretDeps, 'store' | 'random'>,
  tx: WriteTx,
  tenant: TenantId,
  keys: readonly SecretKey[],
  after: string,
  counts: { rotated: number; unreadable: number },
): Promise<string | undefined> {
  const [key] = keys
  const found = await store.listOfOtherKeys(tx, tenant, key!.id, after, limits.secretRotationBatch)
  for (const secret of found) {
    const value = openWith(keys, secret)
    if (value === undefined) {
      counts.unreadable++
      continue
    }
    const sealed = seal(key!, aadOf(tenant, secret.id), value, random)
    await store.putSecret(tx, tenant, { ...secret, keyId: key!.id, sealed })
    counts.rotated++
  }
  return found.at(-1)?.id
}

function openWith(keys: readonly SecretKey[], { tenant, id, keyId, sealed }: StoredSecret): string | undefined {
  const key = keys.find((candidate) => candidate.id === keyId)
  return key && open(key, aadOf(tenant, id), sealed)
}

const viewOf = (secret: StoredSecret) => ({
  id: secret.id,
  purpose: secret.purpose,
  owner: secret.owner,
  entered: secret.sealed !== '',
  created_at: isoTime(secret.createdAtMs),
  updated_at: isoTime(secret.updatedAtMs),
})
