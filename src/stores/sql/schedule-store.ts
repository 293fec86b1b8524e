import type { Selectable } from 'kysely'
import { SYSTEM_TENANT, tenantId } from '../../contract/principal.ts'
import { readPrincipal, writePrincipal } from '../../contract/stored-principal.ts'
import type { WriteTx } from '../../contract/tx.ts'
import type { Schedule, ScheduleStore } from '../../domains/schedules/ports.ts'
import type { ScheduleTable } from './schema.ts'
import { rawStatement, type Session, statement } from './statements.ts'
import { sessionOf, sharedWriterOf, writerOf } from './tx.ts'

type Row = Selectable<ScheduleTable>
type RowId = { tenant: string; subject_id: string }

const put = statement<Row>('schedule-store.put')((db, arg) =>
  db
    .insertInto('schedules')
    .values({
      tenant: arg('tenant'),
      kind: arg('kind'),
      subject_id: arg('subject_id'),
      timing: arg('timing'),
      principal: arg('principal'),
      owner: arg('owner'),
      due_at: arg('due_at'),
      next_at: arg('next_at'),
      last_run_id: arg('last_run_id'),
      missed: arg('missed'),
      skipped: arg('skipped'),
    })
    .onConflict((conflict) =>
      conflict.columns(['tenant', 'subject_id']).doUpdateSet({
        timing: arg('timing'),
        principal: arg('principal'),
        owner: arg('owner'),
        due_at: arg('due_at'),
        next_at: arg('next_at'),
        last_run_id: arg('last_run_id'),
        missed: arg('missed'),
        skipped: arg('skipped'),
      }),
    ),
)
const remove = statement<RowId>('schedule-store.remove')((db, arg) =>
  db.deleteFrom('schedules').where('tenant', '=', arg('tenant')).where('subject_id', '=', arg('subject_id')),
)
const find = statement<RowId>('schedule-store.find')((db, arg) =>
  db
    .selectFrom('schedules')
    .selectAll()
    .where('tenant', '=', arg('tenant'))
    .where('subject_id', '=', arg('subject_id')),
)
const due = statement<{ until: number }>('schedule-store.due')((db, arg) =>
  db
    .selectFrom('schedules')
    .selectAll()
    .where('next_at', '<=', arg('until'))
    .orderBy('next_at')
    .orderBy('tenant')
    .orderBy('subject_id'),
)
const firstAfter = statement<{ after: number }>('schedule-store.firstAfter')((db, arg) =>
  db.selectFrom('schedules').select('next_at').where('next_at', '>', arg('after')).orderBy('next_at').limit(1),
)
/** SQLite has one writer at a time, so there is nothing to hold back. */
const lockShared = statement<{ key: string }>('schedule-store.lockShared')((db, arg, { dialect, sql }) =>
  rawStatement(
    dialect === 'postgres'
      ? sql`SELECT pg_advisory_xact_lock(hashtextextended(${arg('key')}, 7433))`
      : sql`SELECT ${arg('key')}`,
    db,
  ),
)

const writer = (tx: WriteTx, tenant: string): Session =>
  tenant === SYSTEM_TENANT ? sharedWriterOf(tx) : writerOf(tx, tenant)

export const sqlScheduleStore: ScheduleStore = {
  async lock(tx, tenant) {
    // The head of its log holds the schedules of one tenant. The key is that of the agents, so that nobody takes two in another order.
    if (tenant === SYSTEM_TENANT) await sessionOf(tx).get(lockShared, { key: 'agents of everybody' })
  },
  async put(tx, schedule) {
    await writer(tx, schedule.tenant).run(put, toRow(schedule))
  },
  async remove(tx, tenant, subjectId) {
    return (await writer(tx, tenant).run(remove, { tenant, subject_id: subjectId })) > 0
  },
  async find(tx, tenant, subjectId) {
    const row = await sessionOf(tx).get(find, { tenant, subject_id: subjectId })
    return row === undefined ? undefined : fromRow(row)
  },
  async due(tx, untilMs) {
    return (await sessionOf(tx).all(due, { until: untilMs })).map(fromRow)
  },
  async firstAfter(tx, afterMs) {
    return (await sessionOf(tx).get(firstAfter, { after: afterMs }))?.next_at
  },
}

const toRow = (schedule: Schedule): Row => ({
  tenant: schedule.tenant,
  kind: schedule.kind,
  subject_id: schedule.subjectId,
  timing: JSON.stringify(schedule.timing),
  principal: writePrincipal(schedule.principal),
  owner: schedule.owner,
  due_at: schedule.dueAtMs,
  next_at: schedule.nextAtMs,
  last_run_id: schedule.lastRunId,
  missed: schedule.missed,
  skipped: schedule.skipped,
})

const fromRow = (row: Row): Schedule => ({
  tenant: tenantId(row.tenant),
  kind: row.kind as Schedule['kind'],
  subjectId: row.subject_id,
  timing: JSON.parse(row.timing) as Schedule['timing'],
  principal: readPrincipal(row.principal),
  owner: row.owner,
  dueAtMs: row.due_at,
  nextAtMs: row.next_at,
  lastRunId: row.last_run_id,
  missed: row.missed,
  skipped: row.skipped,
})
