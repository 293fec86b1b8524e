import type { Database } from '../../contract/database.ts'
import type { OptimizationRules } from '../../contract/optimization-rules.ts'
import type { ProviderKeys } from '../../contract/provider-keys.ts'
import type { UsageAccounting } from '../../domains/limits/usage-limits.ts'
import {
  createOptimizationRuleDirectory,
  type OptimizationRuleDirectory,
} from '../../domains/model-proxies/optimization-rule-directory.ts'
import {
  createProviderKeyDirectory,
  type ProviderKeyDirectory,
} from '../../domains/model-proxies/provider-key-directory.ts'
import type { SecretService } from '../../domains/secrets/service.ts'
import type { ModelAccounting } from '../../models/ports.ts'
import { sqlOptimizationRuleStore } from '../../stores/sql/optimization-rule-store.ts'
import { sqlProviderKeyStore } from '../../stores/sql/provider-key-store.ts'
import type { AppDeps } from '../build-app.ts'
import { once } from './once.ts'
import { type OpenedInteractions, openInteractions } from './open-interactions.ts'
import type { OwnerWatch } from './open-owner-watch.ts'
import { openUsageLimits } from './open-usage-limits.ts'

/** Which keys and which models requests use. */
export type ModelChoices = Readonly<{ storedKeys: ProviderKeys; optimization: OptimizationRules }>

type ModelUsage = Readonly<{
  choices: ModelChoices
  accounting: UsageAccounting
  recorder: OpenedInteractions['recorder']
  /** Of providers. */
  storedKeys: ProviderKeyDirectory
  optimization: OptimizationRuleDirectory
  /** For agents and this server; loaded with the first request. */
  modelAccounting(): Promise<ModelAccounting>
  /** What is wrong with the export of interactions. */
  problem(): string | undefined
  close(): Promise<void>
}>

type ModelUsageParts = Readonly<{
  database: Database
  ownerWatch: Pick<OwnerWatch, 'onSignedOut'>
  /** Available once the secrets are open. */
  secrets(): Promise<Pick<SecretService, 'resolve' | 'valuesOf'>>
}>

/** Use of models: reserved before, recorded after. */
export function openModelUsage(deps: AppDeps, { database, ownerWatch, secrets }: ModelUsageParts): ModelUsage {
  const { accounting, close } = openUsageLimits(deps, database)
  const interactions = openInteractions(deps, database, secrets)
  const { recorder } = interactions
  const storedKeys = createProviderKeyDirectory({
    store: sqlProviderKeyStore,
    read: database.read,
    flush: () => database.flush(),
    resolve: async (tenant, reference) => await (await secrets()).resolve(database.read, tenant, reference),
    clock: deps.clock,
  })
  const optimization = createOptimizationRuleDirectory({
    store: sqlOptimizationRuleStore,
    read: database.read,
    flush: () => database.flush(),
    clock: deps.clock,
  })
  const stopListening = ownerWatch.onSignedOut(storedKeys.forget)
  return {
    accounting,
    recorder,
    choices: { storedKeys, optimization },
    storedKeys,
    optimization,
    modelAccounting: once(async () => {
      const { createModelAccounting } = await import('./model-accounting.ts')
      return createModelAccounting({
        limits: accounting,
        interactions: recorder,
        clock: deps.clock,
        defaultOutputTokens: deps.config.limits.default_output_tokens,
      })
    }),
    problem: interactions.problem,
    async close() {
      stopListening()
      await close()
      await interactions.close()
    },
  }
}
