import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import { limits } from '../../contract/limits.ts'
import type { RuleEntity } from '../../contract/optimization-rules.ts'
import type { Principal } from '../../contract/principal.ts'
import type { ReadTx } from '../../contract/tx.ts'
import { isoTime } from '../../kernel/clock.ts'
import { type Random, randomId } from '../../kernel/random.ts'
import { checkName } from '../profiles/rules.ts'
import type { OptimizationRule, OptimizationRuleStore } from './ports.ts'

type ConditionFields = Readonly<{
  max_tokens?: number | undefined
  has_tools?: boolean | undefined
  models?: readonly string[] | undefined
}>

type RuleDeps = Readonly<{
  store: OptimizationRuleStore
  random: Random
  /** The id of an entity that the caller sees. */
  entity(read: ReadTx, principal: Principal, type: RuleEntity, reference: string): Promise<string | undefined>
  /** Whether it is for something that exists, and that the caller does not see. */
  isHidden(
    read: ReadTx,
    principal: Principal,
    rule: Pick<OptimizationRule, 'entityType' | 'entityId'>,
  ): Promise<boolean>
  /** The configured models of a provider; null for a provider without any, and undefined for an unknown provider. */
  modelsOf(provider: string): readonly string[] | null | undefined
  /** Called within the transaction of every change. */
  noteChange(): void
}>

export type OptimizationRuleService = ReturnType<typeof createOptimizationRuleService>

/** Rules that choose cheaper models for some requests of an organisation, a team, an agent or a model proxy. */
export function createOptimizationRuleService({ store, random, entity, isHidden, modelsOf, noteChange }: RuleDeps) {
  /** Those for what the caller sees. */
  async function visible({ read, principal }: Pick<Call, 'read' | 'principal'>): Promise<readonly OptimizationRule[]> {
    const rules: OptimizationRule[] = []
    for (const rule of await store.listRules(read, principal.tenant))
      if (!(await isHidden(read, principal, rule))) rules.push(rule)
    return rules
  }

  async function find(call: Pick<Call, 'read' | 'principal'>, id: string): Promise<OptimizationRule> {
    const found = (await visible(call)).find((rule) => rule.id === id || rule.name === id)
    if (found !== undefined) return found
    const message = 'rule: there is no such rule; optimization_rule_list shows them'
    throw new AppError('ERR_NOT_FOUND', message, { field: 'rule' })
  }

  /** If the configuration lists the models of the provider, it must have this one: its price and limits are there. */
  function requireTarget(call: Pick<Call, 'warn'>, provider: string, model: string): void {
    const models = modelsOf(provider)
    if (models === undefined) {
      throw new AppError('ERR_NOT_FOUND', 'provider: this server has no such provider', { field: 'provider' })
    }
    if (models === null) {
      call.warn(
        `target_model: models.providers lists no models of '${provider}', so the name was not checked. The provider refuses requests for a model that it does not have.`,
      )
      return
    }
    if (models.includes(model)) return
    const message = `target_model: the provider '${provider}' has no such model in models.providers; it has ${models.join(', ')}`
    throw new AppError('ERR_NOT_FOUND', message, { field: 'target_model' })
  }

  function requireUnusedName(rules: readonly OptimizationRule[], name: string): void {
    if (!rules.some((rule) => rule.name === name)) return
    throw new AppError('ERR_ALREADY_EXISTS', 'name: another rule has this name; choose another', { field: 'name' })
  }

  return {
    async create(
      call: Call,
      input: ConditionFields &
        Readonly<{
          name: string
          entity_type: RuleEntity
          entity_id: string
          provider: string
          target_model: string
          enabled: boolean
        }>,
    ) {
      const { principal, read, write, nowMs } = call
      const { tenant } = principal
      const name = checkName(input.name)
      const entityId = await entity(read, principal, input.entity_type, input.entity_id)
      if (entityId === undefined) {
        const message = `entity_id: there is no such ${input.entity_type} that you can see. For organization, give the id of your own.`
        throw new AppError('ERR_NOT_FOUND', message, { field: 'entity_id' })
      }
      requireTarget(call, input.provider, input.target_model)
      const existing = await store.listRules(read, tenant)
      requireUnusedName(existing, name)
      if (existing.length >= limits.optimizationRulesMax) {
        const message = `The limit of ${existing.length} rules is reached. Delete those that are not needed.`
        throw new AppError('ERR_QUOTA_EXCEEDED', message, { limit: limits.optimizationRulesMax })
      }
      const rule: OptimizationRule = {
        tenant,
        id: randomId(random, 'rule'),
        name,
        entityType: input.entity_type,
        entityId,
        provider: input.provider,
        conditions: {
          maxTokens: input.max_tokens ?? null,
          hasTools: input.has_tools ?? null,
          models: input.models ?? null,
        },
        targetModel: input.target_model,
        isEnabled: input.enabled,
        createdAtMs: nowMs,
        createdBy: principal.actor,
      }
      await store.insertRule(write, tenant, rule)
      noteChange()
      call.record({ kind: 'optimization_rule_created', body: { ...viewOf(rule), by: principal.actor } })
      return { rule: viewOf(rule) }
    },

    async list(call: Pick<Call, 'read' | 'principal'>) {
      return { rules: (await visible(call)).map(viewOf) }
    },

    /** Omitted fields stay as they are. */
    async update(
      call: Call,
      input: ConditionFields &
        Readonly<{
          rule: string
          name?: string | undefined
          target_model?: string | undefined
          enabled?: boolean | undefined
        }>,
    ) {
      const { principal, read, write } = call
      const before = await find(call, input.rule)
      const name = input.name === undefined ? before.name : checkName(input.name)
      if (name !== before.name) requireUnusedName(await store.listRules(read, principal.tenant), name)
      const targetModel = input.target_model ?? before.targetModel
      if (input.target_model !== undefined) requireTarget(call, before.provider, targetModel)
      const { conditions } = before
      const after: OptimizationRule = {
        ...before,
        name,
        targetModel,
        isEnabled: input.enabled ?? before.isEnabled,
        conditions: {
          maxTokens: input.max_tokens ?? conditions.maxTokens,
          hasTools: input.has_tools ?? conditions.hasTools,
          models: input.models ?? conditions.models,
        },
      }
      await store.saveRule(write, principal.tenant, after)
      noteChange()
      call.record({ kind: 'optimization_rule_updated', body: { ...viewOf(after), by: principal.actor } })
      return { rule: viewOf(after) }
    },

    async remove(call: Call, input: Readonly<{ rule: string }>) {
      const { principal, write } = call
      const { id, name } = await find(call, input.rule)
      await store.deleteRule(write, principal.tenant, id)
      noteChange()
      call.record({ kind: 'optimization_rule_deleted', body: { id, name, by: principal.actor } })
      return { id, deleted: true as const }
    },
  }
}

const viewOf = (rule: OptimizationRule) => ({
  id: rule.id,
  name: rule.name,
  entity_type: rule.entityType,
  entity_id: rule.entityId,
  provider: rule.provider,
  max_tokens: rule.conditions.maxTokens,
  has_tools: rule.conditions.hasTools,
  models: rule.conditions.models,
  target_model: rule.targetModel,
  enabled: rule.isEnabled,
  created_at: isoTime(rule.createdAtMs),
  created_by: rule.createdBy,
})
