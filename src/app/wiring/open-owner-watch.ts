import type { Database } from '../../contract/database.ts'
import { limits } from '../../contract/limits.ts'
import { identityOf, type Principal, type TenantId } from '../../contract/principal.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'
import { keyStatus } from '../../domains/identity/rules.ts'
import { sqlApiKeyStore } from '../../stores/sql/api-key-store.ts'
import type { AppDeps } from '../build-app.ts'

type Listener = (tenant: TenantId, owner: string) => void
type Watched = { readonly tenant: TenantId; readonly owner: string; count: number }

/**
 * Those who start what outlives their request, or have something open: whether they are still there, and the news that one
 * is not. That a key was revoked here is told once it is committed. That one expired, or was revoked by another process on the
 * same store, is found out while somebody watches for it, within `limits.keyLookMs`.
 */
export type OwnerWatch = Readonly<{
  /** Of all who start something keys alone can go. */
  isRevoked(tx: ReadTx | WriteTx, tenant: TenantId, owner: string): Promise<boolean>
  /** Called within a transaction: a key is gone once that is committed. */
  keyRevoked(tenant: TenantId, keyId: string): void
  /** Answers how to stop listening. A listener may be told of the same one again. */
  onRevoked(listener: Listener): () => void
  /** For as long as whoever is behind the principal has something open. Answers how to end that. */
  watch(principal: Principal): () => void
  close(): void
}>

export function openOwnerWatch({ clock, logger }: Pick<AppDeps, 'clock' | 'logger'>, database: Database): OwnerWatch {
  const listeners = new Set<Listener>()
  const watched = new Map<string, Watched>()
  let reconciling: NodeJS.Timeout | undefined
  let isClosed = false

  async function isRevoked(tx: ReadTx | WriteTx, tenant: TenantId, owner: string): Promise<boolean> {
    if (!isKey(owner)) return false
    const key = await sqlApiKeyStore.findKey(tx as ReadTx, tenant, owner.slice(KEY.length))
    return key === undefined || keyStatus(key, clock.nowMs()) !== 'live'
  }

  function tell(tenant: TenantId, owner: string): void {
    for (const listener of listeners) listener(tenant, owner)
  }

  async function notifyIfRevoked(tenant: TenantId, owner: string): Promise<void> {
    await database.flush()
    if (await isRevoked(database.read, tenant, owner)) tell(tenant, owner)
  }

  async function reconcile(): Promise<void> {
    for (const { tenant, owner } of [...watched.values()]) {
      if (isClosed) return
      if (await isRevoked(database.read, tenant, owner)) tell(tenant, owner)
    }
  }

  function scheduleReconcile(): void {
    if (reconciling !== undefined || isClosed || watched.size === 0) return
    reconciling = setTimeout(() => {
      reconcile()
        .catch((error) => logger.warn('reconcile of open sessions failed', { cause: String(error) }))
        .finally(() => {
          reconciling = undefined
          scheduleReconcile()
        })
    }, limits.keyReconcileMs)
    reconciling.unref()
  }

  return {
    isRevoked,
    keyRevoked(tenant, keyId) {
      notifyIfRevoked(tenant, `${KEY}${keyId}`).catch((error) =>
        logger.warn('reconcile of a revoked key failed', { cause: String(error) }),
      )
    },
    onRevoked(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    watch(principal) {
      const { tenant } = principal
      const owner = identityOf(principal)
      if (!isKey(owner)) return () => {}
      const place = `${tenant} ${owner}`
      const entry = watched.get(place) ?? { tenant, owner, count: 0 }
      watched.set(place, entry)
      entry.count++
      scheduleReconcile()
      let isOver = false
      return () => {
        if (isOver) return
        isOver = true
        entry.count--
        if (entry.count === 0) watched.delete(place)
      }
    },
    close() {
      isClosed = true
      clearTimeout(reconciling)
    },
  }
}

const KEY = 'key:'
const isKey = (owner: string): boolean => owner.startsWith(KEY)
