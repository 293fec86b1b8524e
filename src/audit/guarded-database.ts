import type { Database } from '../contract/database.ts'
import type { TenantId } from '../contract/principal.ts'
import type { WriteUnit } from '../contract/unit.ts'
import type { LogGuard } from './log-guard.ts'
import type { LogStore } from './ports.ts'

/** A store that writes nothing for a tenant whose log must not go on: whatever is written is in the log, or should be. */
export function guardDatabase(
  database: Database,
  guard: Pick<LogGuard, 'requireSound' | 'requireGrown'>,
  log: Pick<LogStore, 'nextSeq'>,
): Database {
  const guarded =
    <T>(tenant: TenantId, work: (unit: WriteUnit) => Promise<T>) =>
    (unit: WriteUnit): Promise<T> => {
      guard.requireGrown(tenant, log.nextSeq(unit, tenant))
      return work(unit)
    }
  return {
    ...database,
    write<T>(tenant: TenantId, work: (unit: WriteUnit) => Promise<T>): Promise<T> {
      try {
        const looking = guard.requireSound(tenant)
        if (looking === undefined) return database.write(tenant, guarded(tenant, work))
        return looking.then(() => database.write(tenant, guarded(tenant, work)))
      } catch (error) {
        return Promise.reject(error)
      }
    },
    writeSoon(tenant, work, onTaken) {
      try {
        const looking = guard.requireSound(tenant)
        if (looking === undefined) return database.writeSoon(tenant, guarded(tenant, work), onTaken)
        return looking.then(() => database.writeSoon(tenant, guarded(tenant, work), onTaken))
      } catch (error) {
        return Promise.reject(error)
      }
    },
  }
}
