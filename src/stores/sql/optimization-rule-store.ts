import type { Selectable } from 'kysely'
import type { RuleEntity } from '../../contract/optimization-rules.ts'
import { tenantId } from '../../contract/principal.ts'
import type { OptimizationRule, OptimizationRuleStore } from '../../domains/model-proxies/ports.ts'
import type { OptimizationRuleTable } from './governance-schema.ts'
import { statement } from './statements.ts'
import { sessionOf, writerOf } from './tx.ts'

type Row = Selectable<OptimizationRuleTable>
type RowId = { tenant: string; id: string }

const savedColumns = ['name', 'conditions', 'target_model', 'is_enabled'] as const
const insertRule = statement<Row>('optimization-rule-store.insertRule')((db, _arg, { columns }) =>
  db
    .insertInto('optimization_rules')
    .values(
      columns(['tenant', 'id', 'entity_type', 'entity_id', 'provider', 'created_at', 'created_by', ...savedColumns]),
    ),
)
type Changed = Pick<Row, 'tenant' | 'id' | 'name' | 'conditions' | 'target_model' | 'is_enabled'>
const saveRule = statement<Changed>('optimization-rule-store.saveRule')((db, arg, { columns }) =>
  db
    .updateTable('optimization_rules')
    .set(columns(savedColumns))
    .where('tenant', '=', arg('tenant'))
    .where('id', '=', arg('id')),
)
const deleteRule = statement<RowId>('optimization-rule-store.deleteRule')((db, arg) =>
  db.deleteFrom('optimization_rules').where('tenant', '=', arg('tenant')).where('id', '=', arg('id')),
)
const listRules = statement<{ tenant: string }>('optimization-rule-store.listRules')((db, arg) =>
  db
    .selectFrom('optimization_rules')
    .selectAll()
    .where('tenant', '=', arg('tenant'))
    .orderBy('created_at')
    .orderBy('id'),
)

export const sqlOptimizationRuleStore: OptimizationRuleStore = {
  async insertRule(tx, tenant, rule) {
    await writerOf(tx, tenant).run(insertRule, toRow(tenant, rule))
  },
  async saveRule(tx, tenant, rule) {
    const { id, name, conditions, target_model, is_enabled } = toRow(tenant, rule)
    await writerOf(tx, tenant).run(saveRule, { tenant, id, name, conditions, target_model, is_enabled })
  },
  async deleteRule(tx, tenant, id) {
    return (await writerOf(tx, tenant).run(deleteRule, { tenant, id })) > 0
  },
  async listRules(tx, tenant) {
    return (await sessionOf(tx).all(listRules, { tenant })).map(fromRow)
  },
}

const toRow = (tenant: string, rule: OptimizationRule): Row => ({
  tenant,
  id: rule.id,
  name: rule.name,
  entity_type: rule.entityType,
  entity_id: rule.entityId,
  provider: rule.provider,
  conditions: JSON.stringify(rule.conditions),
  target_model: rule.targetModel,
  is_enabled: Number(rule.isEnabled),
  created_at: rule.createdAtMs,
  created_by: rule.createdBy,
})

const fromRow = (row: Row): OptimizationRule => ({
  tenant: tenantId(row.tenant),
  id: row.id,
  name: row.name,
  entityType: row.entity_type as RuleEntity,
  entityId: row.entity_id,
  provider: row.provider,
  conditions: JSON.parse(row.conditions) as OptimizationRule['conditions'],
  targetModel: row.target_model,
  isEnabled: row.is_enabled === 1,
  createdAtMs: row.created_at,
  createdBy: row.created_by,
})
