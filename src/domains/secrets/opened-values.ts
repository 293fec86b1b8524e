import { limits } from '../../contract/limits.ts'
import type { TenantId } from '../../contract/principal.ts'
import type { SecretKey, StoredSecret } from './ports.ts'

type OpenedValues = Readonly<{
  /** `open` is called unless it was called for the same rows and keys a moment ago. */
  of(
    tenant: TenantId,
    rows: readonly StoredSecret[],
    keys: readonly SecretKey[],
    open: () => readonly string[],
  ): readonly string[]
}>

type Opened = Readonly<{ rows: readonly StoredSecret[]; keys: readonly SecretKey[]; values: readonly string[] }>

/**
 * Caches the values of tenants while they are used repeatedly: decrypting a thousand takes 20 ms. The same array is
 * returned while nothing changed. A sealed text is never used twice, so equal rows have equal values. All are dropped
 * after a time without use.
 */
export function createOpenedValues(): OpenedValues {
  const known = new Map<TenantId, Opened>()
  let forgetting: NodeJS.Timeout | undefined

  function stayForNow(): void {
    if (forgetting !== undefined) forgetting.refresh()
    else {
      forgetting = setTimeout(() => {
        known.clear()
        forgetting = undefined
      }, limits.openedSecretsIdleMs).unref()
    }
  }

  return {
    of(tenant, rows, keys, open) {
      const last = known.get(tenant)
      if (last !== undefined && haveSame(last.rows, rows, sameRow) && haveSame(last.keys, keys, sameKey)) {
        stayForNow()
        return last.values
      }
      known.delete(tenant)
      const values = open()
      if (known.size >= limits.openedSecretTenantsMax) known.delete(known.keys().next().value!)
      known.set(tenant, { rows, keys, values })
      stayForNow()
      return values
    },
  }
}

const haveSame = <Item>(
  some: readonly Item[],
  others: readonly Item[],
  isSame: (a: Item, b: Item) => boolean,
): boolean => some.length === others.length && some.every((item, index) => isSame(item, others[index]!))
const sameRow = (one: StoredSecret, other: StoredSecret): boolean => one.sealed === other.sealed && one.id === other.id
const sameKey = (one: SecretKey, other: SecretKey): boolean => one.bytes.equals(other.bytes)
