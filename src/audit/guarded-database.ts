import type { Database } from '../contract/database.ts'
import type { TenantId } from '../contract/principal.ts'
import type { WriteTx } from '../contract/tx.ts'
import type { LogGuard } from './log-guard.ts'
import type { LogStore } from './ports.ts'

/** A store that writes nothing for a tenant whose log is halted: every write is in the log, or should be. */
export function guardDatabase(
  database: Database,
  guard: Pick<LogGuard, 'requireSound' | 'requireGrown'>,
  log: Pick<LogStore, 'nextSeq'>,
): Database {
  const guarded =
    <T>(tenant: TenantId, work: (tx: WriteTx) => Promise<T>) =>
    (tx: WriteTx): Promise<T> => {
      guard.requireGrown(tenant, log.nextSeq(tx, tenant))
      return work(tx)
    }
  return {
    ...database,
    write<T>(tenant: TenantId, work: (tx: WriteTx) => Promise<T>): Promise<T> {
      try {
        const checking = guard.requireSound(tenant)
        if (checking === undefined) return database.write(tenant, guarded(tenant, work))
        return checking.then(() => database.write(tenant, guarded(tenant, work)))
      } catch (error) {
        return Promise.reject(error)
      }
    },
    writeSoon(tenant, work, onTaken) {
      try {
        const checking = guard.requireSound(tenant)
        if (checking === undefined) return database.writeSoon(tenant, guarded(tenant, work), onTaken)
        return checking.then(() => database.writeSoon(tenant, guarded(tenant, work), onTaken))
      } catch (error) {
        return Promise.reject(error)
      }
    },
  }
}
