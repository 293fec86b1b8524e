import type { Selectable } from 'kysely'
import { SYSTEM_TENANT } from '../../contract/principal.ts'
import { readPrincipal, writePrincipal } from '../../contract/stored-principal.ts'
import type { Schedule, ScheduleStore } from '../../domains/schedules/ports.ts'
import { lockUntilCommit } from './advisory-lock.ts'
import { json, rowMap } from './row-map.ts'
import type { ScheduleTable } from './schema.ts'
import { statement } from './statements.ts'
import { ownWriterOf, sessionOf } from './tx.ts'

type Row = Selectable<ScheduleTable>
type RowId = { tenant: string; subject_id: string }

const schedules = rowMap<Row, Schedule>()({
  tenant: 'tenant',
  kind: 'kind',
  subjectId: 'subject_id',
  timing: json('timing'),
  principal: { column: 'principal', write: writePrincipal, read: readPrincipal },
  owner: 'owner',
  dueAtMs: 'due_at',
  nextAtMs: 'next_at',
  lastRunId: 'last_run_id',
  missed: 'missed',
  skipped: 'skipped',
})

const plannedColumns = [
  'timing',
  'principal',
  'owner',
  'due_at',
  'next_at',
  'last_run_id',
  'missed',
  'skipped',
] as const
const put = statement<Row>('schedule-store.put')((db, _arg, { columns }) =>
  db
    .insertInto('schedules')
    .values(columns(['tenant', 'kind', 'subject_id', ...plannedColumns]))
    .onConflict((conflict) => conflict.columns(['tenant', 'subject_id']).doUpdateSet(columns(plannedColumns))),
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

export const sqlScheduleStore: ScheduleStore = {
  async lock(tx, tenant) {
    // The head of its log locks the schedules of one tenant. The key is that of the agents, so that no transaction takes two in another
    // order.
    if (tenant === SYSTEM_TENANT) await lockUntilCommit(tx, 'agents of everybody')
  },
  async put(tx, schedule) {
    await ownWriterOf(tx, schedule.tenant).run(put, schedules.toRow(schedule.tenant, schedule))
  },
  async remove(tx, tenant, subjectId) {
    return (await ownWriterOf(tx, tenant).run(remove, { tenant, subject_id: subjectId })) > 0
  },
  async find(tx, tenant, subjectId) {
    return schedules.found(await sessionOf(tx).get(find, { tenant, subject_id: subjectId }))
  },
  async due(tx, untilMs) {
    return (await sessionOf(tx).all(due, { until: untilMs })).map(schedules.fromRow)
  },
  async firstAfter(tx, afterMs) {
    return (await sessionOf(tx).get(firstAfter, { after: afterMs }))?.next_at
  },
}
