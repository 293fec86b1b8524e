import type { Selectable } from 'kysely'
import type { CleanupInterval, EntityType, LimitType } from '../../contract/limit-kinds.ts'
import { tenantId } from '../../contract/principal.ts'
import type { Limit, LimitStore, LimitUse } from '../../domains/limits/ports.ts'
import type { UsageLimitTable } from './governance-schema.ts'
import { statement } from './statements.ts'
import { sessionOf, writerOf } from './tx.ts'

type Row = Selectable<UsageLimitTable>
type RowId = { tenant: string; id: string }
type Use = RowId & { period_start: number; used: number }

const insertLimit = statement<Row>('limit-store.insertLimit')((db, _arg, { columns }) =>
  db
    .insertInto('usage_limits')
    .values(
      columns([
        'tenant',
        'id',
        'entity_type',
        'entity_id',
        'limit_type',
        'limit_value',
        'models',
        'cleanup_interval',
        'server',
        'tool',
        'anchor',
        'period_start',
        'used',
        'created_at',
        'created_by',
      ]),
    ),
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
    await writerOf(tx, tenant).run(insertLimit, toRow(tenant, limit))
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
    const row = await sessionOf(tx).get(findLimit, { tenant, id })
    return row && fromRow(row)
  },
  async listLimits(tx, tenant) {
    return (await sessionOf(tx).all(listLimits, { tenant })).map(fromRow)
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

const toRow = (tenant: string, limit: Limit): Row => ({
  tenant,
  id: limit.id,
  entity_type: limit.entityType,
  entity_id: limit.entityId,
  limit_type: limit.limitType,
  limit_value: limit.value,
  models: limit.models === null ? null : JSON.stringify(limit.models),
  cleanup_interval: limit.interval,
  server: limit.server === null ? null : JSON.stringify(limit.server),
  tool: limit.tool === null ? null : JSON.stringify(limit.tool),
  anchor: limit.anchorMs,
  period_start: NO_PERIOD,
  used: 0,
  created_at: limit.createdAtMs,
  created_by: limit.createdBy,
})

const fromRow = (row: Row): Limit & LimitUse => ({
  tenant: tenantId(row.tenant),
  id: row.id,
  entityType: row.entity_type as EntityType,
  entityId: row.entity_id,
  limitType: row.limit_type as LimitType,
  value: row.limit_value,
  models: row.models === null ? null : (JSON.parse(row.models) as string[]),
  interval: row.cleanup_interval as CleanupInterval,
  server: row.server === null ? null : (JSON.parse(row.server) as Limit['server']),
  tool: row.tool === null ? null : (JSON.parse(row.tool) as Limit['tool']),
  anchorMs: row.anchor,
  periodStartMs: row.period_start,
  used: row.used,
  createdAtMs: row.created_at,
  createdBy: row.created_by,
})
