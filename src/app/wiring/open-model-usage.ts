import type { Database } from '../../contract/database.ts'
import type { UsageAccounting } from '../../domains/limits/usage-limits.ts'
import type { AppDeps } from '../build-app.ts'
import { type OpenedInteractions, openInteractions } from './open-interactions.ts'
import { openUsageLimits } from './open-usage-limits.ts'

export type ModelUsage = Readonly<{
  accounting: UsageAccounting
  recorder: OpenedInteractions['recorder']
  close(): Promise<void>
}>

/** What is used and what was asked of models: counted before, and noted after. */
export function openModelUsage(deps: AppDeps, database: Database): ModelUsage {
  const { accounting, close } = openUsageLimits(deps, database)
  const interactions = openInteractions(deps, database)
  return {
    accounting,
    recorder: interactions.recorder,
    async close() {
      await close()
      await interactions.close()
    },
  }
}
