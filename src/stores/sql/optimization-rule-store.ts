import type { Selectable } from 'kysely'
import type { OptimizationRule, OptimizationRuleStore } from '../../domains/model-proxies/ports.ts'
import type { OptimizationRuleTable } from './governance-schema.ts'
import { flag, json, rowMap } from './row-map.ts'
import { statement } from './statements.ts'
import { sessionOf, writerOf } from './tx.ts'

type Row = Selectable<OptimizationRuleTable>
type RowId = { tenant: string; id: string }

const rules = rowMap<Row, OptimizationRule>()({
  tenant: 'tenant',
  id: 'id',
  name: 'name',
  entityType: 'entity_type',
  entityId: 'entity_id',
  provider: 'provider',
  conditions: json('conditions'),
  targetModel: 'target_model',
  isEnabled: flag('is_enabled'),
  createdAtMs: 'created_at',
  createdBy: 'created_by',
})

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
    await writerOf(tx, tenant).run(insertRule, rules.toRow(tenant, rule))
  },
  async saveRule(tx, tenant, rule) {
    const { id, name, conditions, target_model, is_enabled } = rules.toRow(tenant, rule)
    await writerOf(tx, tenant).run(saveRule, { tenant, id, name, conditions, target_model, is_enabled })
  },
  async deleteRule(tx, tenant, id) {
    return (await writerOf(tx, tenant).run(deleteRule, { tenant, id })) > 0
  },
  async listRules(tx, tenant) {
    return (await sessionOf(tx).all(listRules, { tenant })).map(rules.fromRow)
  },
}
