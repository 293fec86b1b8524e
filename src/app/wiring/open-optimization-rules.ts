import type { OptimizationRuleDirectory } from '../../domains/model-proxies/optimization-rule-directory.ts'
import {
  createOptimizationRuleService,
  type OptimizationRuleService,
} from '../../domains/model-proxies/optimization-rules.ts'
import { keyNamesOf } from '../../models/ports.ts'
import { sqlOptimizationRuleStore } from '../../stores/sql/optimization-rule-store.ts'
import { sqlProfileStore } from '../../stores/sql/profile-store.ts'
import type { AppDeps } from '../build-app.ts'
import { entityFinder, type LimitParts } from './open-limits.ts'
import { providersOf } from './open-models.ts'
import { reachedProviders } from './open-provider-keys.ts'

export type OptimizationRuleParts = Readonly<{ optimization: Pick<OptimizationRuleDirectory, 'noteChange'> }>

/** Rules of organisations for cheaper models. */
export function openOptimizationRules(
  { config, random }: AppDeps,
  { optimization, ...parts }: OptimizationRuleParts & Omit<LimitParts, 'accounting'>,
): OptimizationRuleService {
  const providers = providersOf(config)
  const reached = reachedProviders(config)
  const entity = entityFinder(parts)
  return createOptimizationRuleService({
    store: sqlOptimizationRuleStore,
    random,
    entity,
    async isHidden(read, principal, { entityType, entityId }) {
      if (entityType !== 'agent' || (await entity(read, principal, entityType, entityId)) !== undefined) return false
      return (await sqlProfileStore.findProfile(read, principal.tenant, entityId)) !== undefined
    },
    modelsOf(name) {
      const configured = providers.find((provider) => keyNamesOf(providers, provider).includes(name))
      if (configured !== undefined) return configured.models.map(({ model }) => model)
      return reached.includes(name) ? null : undefined
    },
    noteChange: optimization.noteChange,
  })
}
