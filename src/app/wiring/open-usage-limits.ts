import type { Database } from '../../contract/database.ts'
import { limits } from '../../contract/limits.ts'
import { createUsageLimits, type UsageAccounting } from '../../domains/limits/usage-limits.ts'
import { sqlLimitStore } from '../../stores/sql/limit-store.ts'
import type { AppDeps } from '../build-app.ts'

type OpenedUsageLimits = Readonly<{ accounting: UsageAccounting; close(): Promise<void> }>

/** The use of limits, counted for every call. */
export function openUsageLimits({ config, clock, logger }: AppDeps, database: Database): OpenedUsageLimits {
  const { time_zone, fail_open, wait_ms } = config.limits
  const accounting = createUsageLimits({
    store: sqlLimitStore,
    database,
    clock,
    logger,
    timeZone: time_zone,
    failOpen: fail_open,
    waitMs: wait_ms,
  })
  const quietly = (work: () => Promise<void>) => () =>
    void work().catch((error: unknown) => logger.warn('limits could not be read', { cause: String(error) }))
  const returning = setInterval(
    quietly(() => accounting.giveBack('idle')),
    limits.usageShareCheckMs,
  ).unref()
  const polling =
    database.kind === 'sqlite' ? undefined : setInterval(quietly(accounting.refresh), limits.usageLimitPollMs).unref()
  return {
    accounting,
    async close() {
      clearInterval(returning)
      clearInterval(polling)
      await accounting.giveBack('all')
    },
  }
}
