import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import { identityOf, type Principal, type TenantId } from '../../contract/principal.ts'
import type { ProviderKeys, StoredProviderKey } from '../../contract/provider-keys.ts'
import type { ReadTx } from '../../contract/tx.ts'
import type { Clock } from '../../kernel/clock.ts'
import { nearestFirst } from '../profiles/rules.ts'
import { createChangeWatch } from './change-watch.ts'
import type { ProviderKey, ProviderKeyStore } from './ports.ts'
import { canUse } from './rules.ts'

export type ProviderKeyDirectory = ProviderKeys &
  Readonly<{
    /** Called within a transaction that changes a key: nothing is cached until it is committed. */
    noteChange(): void
    /** Clears the cache. */
    forget(): void
  }>

type DirectoryDeps = Readonly<{
  store: Pick<ProviderKeyStore, 'listKeys' | 'findKey'>
  /** Committed state. */
  read: ReadTx
  /** Resolves when every started transaction is committed. */
  flush(): Promise<void>
  resolve(tenant: TenantId, reference: string): Promise<string>
  clock: Clock
}>

type Known = Readonly<{ key: StoredProviderKey | undefined; untilMs: number }>

export function createProviderKeyDirectory(deps: DirectoryDeps): ProviderKeyDirectory {
  const { store, read, clock } = deps
  /** Keyed by the principal object, which is replaced when the caller's rights change. */
  let known = new WeakMap<Principal, Map<string, Known>>()
  const changes = createChangeWatch({ flush: () => deps.flush(), forget })

  function forget(): void {
    known = new WeakMap()
  }

  async function lookUp(
    principal: Principal,
    names: readonly string[],
    chosenId: string | undefined,
  ): Promise<StoredProviderKey | undefined> {
    const { tenant } = principal
    const found = chosenId === undefined ? await nearest(principal, names) : await chosen(principal, chosenId)
    if (found === undefined) return undefined
    return { value: await deps.resolve(tenant, found.secret), scope: found.sharing.scope }
  }

  async function nearest(principal: Principal, names: readonly string[]): Promise<ProviderKey | undefined> {
    const viewer = {
      identity: identityOf(principal),
      teams: principal.teams,
      seesEveryTeam: false,
      seesEveryPersonal: false,
    }
    const filter = { providers: names, limit: limits.providerKeyListMax }
    const usable = await store.listKeys(read, principal.tenant, viewer, filter)
    const oldestFirst = usable.toSorted((one, other) => one.createdAtMs - other.createdAtMs)
    const primaryFirst = oldestFirst.toSorted((one, other) => Number(other.isPrimary) - Number(one.isPrimary))
    return nearestFirst(primaryFirst)[0]
  }

  async function chosen(principal: Principal, id: string): Promise<ProviderKey> {
    const key = await store.findKey(read, principal.tenant, id)
    if (key !== undefined && canUse(principal, key.sharing)) return key
    throw new AppError(
      'ERR_PROVIDER_KEY_MISSING',
      'The provider key that this virtual key names was deleted, or you may no longer use it. Create a virtual key that names another provider key, or none.',
    )
  }

  return {
    forget,
    noteChange: changes.noteChange,
    find(principal, names, chosenKeys) {
      const chosenFor = chosenKeys == null ? undefined : names.find((name) => Object.hasOwn(chosenKeys, name))
      if (chosenKeys != null && chosenFor === undefined) return Promise.reject(noneChosen(names[0]!))
      const chosenId = chosenFor === undefined ? undefined : chosenKeys![chosenFor]
      const at = chosenId ?? names[0]!
      const current = known
      let seen = current.get(principal)
      if (seen === undefined) {
        seen = new Map()
        current.set(principal, seen)
      }
      const before = seen.get(at)
      if (!changes.isChanging() && before !== undefined && before.untilMs > clock.monotonicMs()) return before.key
      return lookUp(principal, names, chosenId).then((key) => {
        if (changes.isChanging() || current !== known) return key
        seen.set(at, { key, untilMs: clock.monotonicMs() + limits.providerKeyCacheMs })
        return key
      })
    },
  }
}

const noneChosen = (provider: string): AppError =>
  new AppError(
    'ERR_PROVIDER_KEY_MISSING',
    `This virtual key uses only the provider keys that it names, and none of them is for the provider '${provider}'. Use a virtual key that names one for it, or none at all.`,
    { provider },
  )
