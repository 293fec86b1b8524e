import type { Database } from '../../contract/database.ts'
import { limits } from '../../contract/limits.ts'
import type { TenantId } from '../../contract/principal.ts'
import type { WriteTx } from '../../contract/tx.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { Logger } from '../../kernel/logger.ts'
import type { InteractionStore } from './ports.ts'
import { firstIdAt } from './rules.ts'

type PruningDeps = Readonly<{
  store: Pick<InteractionStore, 'pruneInteractions' | 'pruneBodies' | 'tenants'>
  database: Pick<Database, 'read' | 'write'>
  clock: Clock
  logger: Logger
  retentionMs: number
  bodyRetentionMs: number
}>

type Prune = (tx: WriteTx, tenant: TenantId, beforeId: string, limit: number) => Promise<number>

/** Removes rows beyond the retention, in small transactions, so that other work runs in between. */
export function createPruning({ store, database, clock, logger, retentionMs, bodyRetentionMs }: PruningDeps) {
  async function pruneAll(tenant: TenantId, prune: Prune, retainedMs: number): Promise<void> {
    const beforeId = firstIdAt(clock.nowMs() - retainedMs)
    const most = limits.interactionPruneMax
    for (;;) {
      const removed = await database.write(tenant, (tx) => prune(tx, tenant, beforeId, most))
      if (removed < most) return
    }
  }

  return {
    async run(): Promise<void> {
      for (const tenant of await store.tenants(database.read)) {
        try {
          await pruneAll(tenant, store.pruneBodies, Math.min(bodyRetentionMs, retentionMs))
          await pruneAll(tenant, store.pruneInteractions, retentionMs)
        } catch (error) {
          logger.warn('old interactions could not be removed', { tenant, cause: String(error) })
        }
      }
    },
  }
}
