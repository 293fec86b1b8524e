import type { Database } from '../../contract/database.ts'
import { limits } from '../../contract/limits.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { Logger } from '../../kernel/logger.ts'
import type { TrustStore } from './ports.ts'

type TrustPruningDeps = Readonly<{
  store: Pick<TrustStore, 'pruneTaints' | 'tenants'>
  database: Pick<Database, 'read' | 'write'>
  clock: Pick<Clock, 'nowMs'>
  logger: Pick<Logger, 'warn'>
}>

/**
 * Removes the untrusted contexts that cannot come back, in small transactions. A session ends after a time without use.
 * Another process may notice that later, so the longer time counts.
 */
export function createTrustPruning({ store, database, clock, logger }: TrustPruningDeps) {
  let running: Promise<void> | undefined

  async function prune(): Promise<void> {
    for (const tenant of await store.tenants(database.read)) {
      const nowMs = clock.nowMs()
      const before = {
        unusedMs: nowMs - limits.contextLiveMs,
        sessionMs: nowMs - limits.httpSessionIdleMs - limits.contextLiveMs,
        keyMs: nowMs - limits.trustPruneKeyMs,
        lineMs: nowMs - limits.lineSessionMs,
      }
      for (;;) {
        const removed = await database.write(tenant, (tx) =>
          store.pruneTaints(tx, tenant, before, limits.trustPruneMax),
        )
        if (removed < limits.trustPruneMax) break
      }
    }
  }

  return {
    run(): void {
      running ??= prune()
        .catch((error: unknown) => logger.warn('ended contexts could not be removed', { cause: String(error) }))
        .finally(() => {
          running = undefined
        })
    },
    /** Resolves when the pass in progress has ended. */
    settled: async (): Promise<void> => await running,
  }
}
