import type { Selectable } from 'kysely'
import type { Limit, LimitStore, LimitUse } from '../../domains/limits/ports.ts'
import type { UsageLimitTable } from './governance-schema.ts'
import { jsonOrNull, rowMap } from './row-map.ts'
import { statement } from './statements.ts'
import { sessionOf, writerOf } from './tx.ts'

type Row = Selectable<UsageLimitTable>
type RowId = { tenant: string; id: string }
type Use = RowId & { period_start: number; used: number }

const limits = rowMap<Row, Limit & LimitUse>()({
  tenant: 'tenant',
  id: 'id',
  entityType: 'entity_type',
  entityId: 'entity_id',
  limitType: 'limit_type',
  value: 'limit_value',
  models: jsonOrNull('models'),
  interval: 'cleanup_interval',
  server: jsonOrNull('server'),
  tool: jsonOrNull('tool'),
  anchorMs: 'anchor',
  periodStartMs: 'period_start',
  used: 'used',
  createdAtMs: 'created_at',
  createdBy: 'created_by',
})

const insertLimit = statement<Row>('limit-store.insertLimit')((db, _arg, { columns }) =>
  db.insertInto('usage_limits').values(columns(limits.columns)),
)
const saveLimit = statement<RowId & { limit_value: number; cleanup_interval: string; anchor: number }>(
  'limit-store.saveLimit',
)((db, arg) =>
  db
    .updateTable('usage_limits')
    .set({ limit_value: arg('limit_value'), cleanup_interval: arg('cleanup_interval'), anchor: arg('anchor') })
    .where('tenant', '=', arg('tenant'))
    .where('id', '=', arg('id')),
)
const deleteLimit = statement<RowId>('limit-store.deleteLimit')((db, arg) =>
  db.deleteFrom('usage_limits').where('tenant', '=', arg('tenant')).where('id', '=', arg('id')),
)
const findLimit = statement<RowId>('limit-store.findLimit')((db, arg) =>
  db.selectFrom('usage_limits').selectAll().where('tenant', '=', arg('tenant')).where('id', '=', arg('id')),
)
const listLimits = statement<{ tenant: string }>('limit-store.listLimits')((db, arg) =>
  db.selectFrom('usage_limits').selectAll().where('tenant', '=', arg('tenant')).orderBy('created_at').orderBy('id'),
)
const saveUse = statement<Use>('limit-store.saveUse')((db, arg) =>
  db
    .updateTable('usage_limits')
    .set({ period_start: arg('period_start'), used: arg('used') })
    .where('tenant', '=', arg('tenant'))
    .where('id', '=', arg('id')),
)
const addUse = statement<Use>('limit-store.addUse')((db, arg) =>
  db
    .updateTable('usage_limits')
    .set((row) => ({ used: row('used', '+', arg('used')) }))
    .where('tenant', '=', arg('tenant'))
    .where('id', '=', arg('id'))
    .where('period_start', '=', arg('period_start')),
)

export const sqlLimitStore: LimitStore = {
  async insertLimit(tx, tenant, limit) {
    await writerOf(tx, tenant).run(insertLimit, limits.toRow(tenant, { ...limit, periodStartMs: NO_PERIOD, used: 0 }))
  },
  async saveLimit(tx, tenant, limit, isNewInterval) {
    const writer = writerOf(tx, tenant)
    const { id, value, interval, anchorMs } = limit
    await writer.run(saveLimit, { tenant, id, limit_value: value, cleanup_interval: interval, anchor: anchorMs })
    if (isNewInterval) await writer.run(saveUse, { tenant, id, period_start: NO_PERIOD, used: 0 })
  },
  async deleteLimit(tx, tenant, id) {
    await writerOf(tx, tenant).run(deleteLimit, { tenant, id })
  },
  async findLimit(tx, tenant, id) {
    return limits.found(await sessionOf(tx).get(findLimit, { tenant, id }))
  },
  async listLimits(tx, tenant) {
    return (await sessionOf(tx).all(listLimits, { tenant })).map(limits.fromRow)
  },
  async saveUse(tx, tenant, id, { periodStartMs, used }) {
    await writerOf(tx, tenant).run(saveUse, { tenant, id, period_start: periodStartMs, used })
  },
  async addUse(tx, tenant, id, { periodStartMs, used }) {
    await writerOf(tx, tenant).run(addUse, { tenant, id, period_start: periodStartMs, used })
  },
}

/** Nothing is used yet. */
const NO_PERIOD = 0
