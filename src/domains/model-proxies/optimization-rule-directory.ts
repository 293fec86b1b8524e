import { limits } from '../../contract/limits.ts'
import {
  type ChosenModel,
  isModelNamed,
  type OptimizationRules,
  type RequestShape,
  type RuleEntity,
} from '../../contract/optimization-rules.ts'
import type { TenantId } from '../../contract/principal.ts'
import type { ReadTx } from '../../contract/tx.ts'
import type { UsageSubject } from '../../contract/usage-limits.ts'
import type { Clock } from '../../kernel/clock.ts'
import { createChangeWatch } from './change-watch.ts'
import type { OptimizationRule, OptimizationRuleStore } from './ports.ts'

export type OptimizationRuleDirectory = OptimizationRules &
  Readonly<{
    /** Called within a transaction that changes a rule: nothing is cached until it is committed. */
    noteChange(): void
  }>

type DirectoryDeps = Readonly<{
  store: Pick<OptimizationRuleStore, 'listRules'>
  /** Committed state. */
  read: ReadTx
  /** Resolves when every started transaction is committed. */
  flush(): Promise<void>
  clock: Clock
}>

type Known = Readonly<{ rules: readonly OptimizationRule[]; untilMs: number }>
const nearness: Readonly<Record<RuleEntity, number>> = { agent: 0, team: 1, organization: 2 }

export function createOptimizationRuleDirectory(deps: DirectoryDeps): OptimizationRuleDirectory {
  const { clock } = deps
  let known = new Map<TenantId, Known>()
  const changes = createChangeWatch({
    flush: () => deps.flush(),
    forget() {
      known = new Map()
    },
  })

  async function load(tenant: TenantId): Promise<readonly OptimizationRule[]> {
    const current = known
    const found = await deps.store.listRules(deps.read, tenant)
    const rules = found
      .filter(({ isEnabled }) => isEnabled)
      .toSorted((one, other) => nearness[one.entityType] - nearness[other.entityType])
    if (changes.isChanging() || current !== known) return rules
    if (known.size >= limits.optimizationRuleTenantsMax) known.clear()
    known.set(tenant, { rules, untilMs: clock.monotonicMs() + limits.optimizationRuleCacheMs })
    return rules
  }

  return {
    noteChange: changes.noteChange,
    choose(subject, request) {
      const before = known.get(subject.tenant)
      if (!changes.isChanging() && before !== undefined && before.untilMs > clock.monotonicMs()) {
        return chosenBy(before.rules, subject, request)
      }
      return load(subject.tenant).then((rules) => chosenBy(rules, subject, request))
    },
  }
}

/** The first matching rule decides, even if it names the requested model. */
function chosenBy(
  rules: readonly OptimizationRule[],
  subject: UsageSubject,
  request: RequestShape,
): ChosenModel | undefined {
  const found = rules.find((rule) => isFor(rule, subject) && matches(rule, request))
  if (found === undefined || found.targetModel === request.model) return undefined
  return { model: found.targetModel, rule: { id: found.id, name: found.name } }
}

function isFor({ entityType, entityId }: OptimizationRule, { tenant, teams, profiles }: UsageSubject): boolean {
  switch (entityType) {
    case 'organization':
      return entityId === tenant
    case 'team':
      return teams.includes(entityId)
    case 'agent':
      return profiles.includes(entityId)
  }
}

function matches({ provider, conditions }: OptimizationRule, request: RequestShape): boolean {
  const { maxTokens, hasTools, models } = conditions
  if (!request.providers.includes(provider)) return false
  if (maxTokens !== null && request.tokens > maxTokens) return false
  if (hasTools !== null && request.hasTools !== hasTools) return false
  return models === null || models.some((name) => isModelNamed(name, request.model))
}
