import type { Selectable } from 'kysely'
import { tenantId } from '../../contract/principal.ts'
import type { PolicyStore, StoredPolicy } from '../../domains/policies/ports.ts'
import type { ToolPolicyTable } from './governance-schema.ts'
import { json, rowMap } from './row-map.ts'
import { statement } from './statements.ts'
import { sessionOf, writerOf } from './tx.ts'

type PolicyRow = Selectable<ToolPolicyTable>
type OfTenant = { tenant: string }
type RowId = OfTenant & { id: string }

const policies = rowMap<Omit<PolicyRow, 'is_default'>, StoredPolicy>()({
  tenant: 'tenant',
  id: 'id',
  kind: 'kind',
  toolId: 'tool_id',
  conditions: json('conditions'),
  action: 'action',
  note: 'note',
  position: 'position',
  createdAtMs: 'created_at',
  updatedAtMs: 'updated_at',
})
const toRow = (tenant: string, policy: StoredPolicy): PolicyRow => ({
  ...policies.toRow(tenant, policy),
  is_default: policy.conditions.length === 0 ? 1 : 0,
})

const insertPolicy = statement<PolicyRow>('policy-store.insertPolicy')((db, _arg, { columns }) =>
  db.insertInto('tool_policies').values(columns([...policies.columns, 'is_default'])),
)
const savePolicy = statement<Omit<PolicyRow, 'kind' | 'position' | 'created_at'>>('policy-store.savePolicy')(
  (db, arg, { columns }) =>
    db
      .updateTable('tool_policies')
      .set(columns(['tool_id', 'conditions', 'is_default', 'action', 'note', 'updated_at']))
      .where('tenant', '=', arg('tenant'))
      .where('id', '=', arg('id')),
)
const deletePolicy = statement<RowId>('policy-store.deletePolicy')((db, arg) =>
  db.deleteFrom('tool_policies').where('tenant', '=', arg('tenant')).where('id', '=', arg('id')),
)
const findPolicy = statement<RowId>('policy-store.findPolicy')((db, arg) =>
  db.selectFrom('tool_policies').selectAll().where('tenant', '=', arg('tenant')).where('id', '=', arg('id')),
)
const listPolicies = statement<OfTenant>('policy-store.listPolicies')((db, arg) =>
  db.selectFrom('tool_policies').selectAll().where('tenant', '=', arg('tenant')).orderBy('position').orderBy('id'),
)
const extent = statement<OfTenant>('policy-store.extent')((db, arg, { sql }) =>
  db
    .selectFrom('tool_policies')
    .select([sql<number>`count(*)`.as('count'), sql<number | null>`max(position)`.as('last_position')])
    .where('tenant', '=', arg('tenant')),
)
const raiseVersion = statement<OfTenant>('policy-store.raiseVersion')((db, arg) =>
  db
    .insertInto('tool_policy_versions')
    .values({ tenant: arg('tenant'), version: 1 })
    .onConflict((conflict) =>
      conflict
        .column('tenant')
        .doUpdateSet((expression) => ({ version: expression('tool_policy_versions.version', '+', 1) })),
    ),
)
const listVersions = statement<Record<never, never>>('policy-store.listVersions')((db) =>
  db.selectFrom('tool_policy_versions').select(['tenant', 'version']),
)

export const sqlPolicyStore: PolicyStore = {
  async insertPolicy(tx, tenant, policy) {
    await writerOf(tx, tenant).run(insertPolicy, toRow(tenant, policy))
  },
  async savePolicy(tx, tenant, policy) {
    const { kind: _, position: __, created_at: ___, ...row } = toRow(tenant, policy)
    await writerOf(tx, tenant).run(savePolicy, row)
  },
  async deletePolicy(tx, tenant, id) {
    return (await writerOf(tx, tenant).run(deletePolicy, { tenant, id })) > 0
  },
  async findPolicy(tx, tenant, id) {
    return policies.found(await sessionOf(tx).get(findPolicy, { tenant, id }))
  },
  async listPolicies(tx, tenant) {
    return (await sessionOf(tx).all(listPolicies, { tenant })).map(policies.fromRow)
  },
  async extent(tx, tenant) {
    const row = (await sessionOf(tx).get(extent, { tenant }))!
    return { count: Number(row.count), lastPosition: Number(row.last_position ?? 0) }
  },
  async raiseVersion(tx, tenant) {
    await writerOf(tx, tenant).run(raiseVersion, { tenant })
  },
  async versions(tx) {
    const rows = await sessionOf(tx).all(listVersions, {})
    return new Map(rows.map(({ tenant, version }) => [tenantId(tenant), Number(version)]))
  },
}
