import type { Database } from '../../contract/database.ts'
import type { UsageAccounting } from '../../domains/limits/usage-limits.ts'
import type { ModelAccounting } from '../../models/ports.ts'
import type { AppDeps } from '../build-app.ts'
import { once } from './once.ts'
import { type OpenedInteractions, openInteractions } from './open-interactions.ts'
import { openUsageLimits } from './open-usage-limits.ts'

export type ModelUsage = Readonly<{
  accounting: UsageAccounting
  recorder: OpenedInteractions['recorder']
  /** Of agents and of this server; loaded with the first question. */
  modelAccounting(): Promise<ModelAccounting>
  close(): Promise<void>
}>

/** What is used and what was asked of models: counted before, and noted after. */
export function openModelUsage(deps: AppDeps, database: Database): ModelUsage {
  const { accounting, close } = openUsageLimits(deps, database)
  const interactions = openInteractions(deps, database)
  const { recorder } = interactions
  return {
    accounting,
    recorder,
    modelAccounting: once(async () => {
      const { createModelAccounting } = await import('./model-accounting.ts')
      return createModelAccounting({
        limits: accounting,
        interactions: recorder,
        clock: deps.clock,
        defaultOutputTokens: deps.config.limits.default_output_tokens,
      })
    }),
    async close() {
      await close()
      await interactions.close()
    },
  }
}
