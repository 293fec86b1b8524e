import type { Database } from '../contract/database.ts'
import type { TenantId } from '../contract/principal.ts'
import type { ReadUnit, WriteUnit } from '../contract/unit.ts'
import { keyStatus } from '../domains/identity/rules.ts'
import { sqlApiKeyStore } from '../stores/sql/api-key-store.ts'
import type { AppDeps } from './build-app.ts'

type Listener = (tenant: TenantId, owner: string) => void

/** Those who start what outlives their request: whether they are still there, and the news that one is not. */
export type Starters = Readonly<{
  /** Of all who start something keys alone can go. */
  isGone(unit: ReadUnit | WriteUnit, tenant: TenantId, owner: string): Promise<boolean>
  /** Called within a transaction: a key is gone once that is committed. */
  keyRevoked(tenant: TenantId, keyId: string): void
  /** Answers how to stop listening. */
  onGone(listener: Listener): () => void
}>

export function openStarters({ clock, logger }: AppDeps, database: Database): Starters {
  const listeners = new Set<Listener>()

  async function isGone(unit: ReadUnit | WriteUnit, tenant: TenantId, owner: string): Promise<boolean> {
    if (!owner.startsWith('key:')) return false
    const key = await sqlApiKeyStore.findKey(unit as ReadUnit, tenant, owner.slice('key:'.length))
    return key === undefined || keyStatus(key, clock.nowMs()) !== 'live'
  }

  async function tell(tenant: TenantId, owner: string): Promise<void> {
    await database.flush()
    if (await isGone(database.read, tenant, owner)) for (const listener of listeners) listener(tenant, owner)
  }

  return {
    isGone,
    keyRevoked(tenant, keyId) {
      tell(tenant, `key:${keyId}`).catch((error) =>
        logger.warn('what a revoked key has open was not looked at', { cause: String(error) }),
      )
    },
    onGone(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
  }
}
