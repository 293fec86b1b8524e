import type { Selectable } from 'kysely'
import { tenantId } from '../../contract/principal.ts'
import { readPrincipal, writePrincipal } from '../../contract/stored-principal.ts'
import type { Run, RunError, RunFilter, RunKind, RunStatus, RunStore, StoredEvent } from '../../engine/ports.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import type { RunJournalTable, RunTable } from './schema.ts'
import { type Builder, statement, statementFamily, type Value } from './statements.ts'
import { sessionOf, writerOf } from './tx.ts'

type RunRow = Selectable<RunTable>
type EventRow = Selectable<RunJournalTable>
type RowId = { tenant: string; id: string }
type Args = Record<string, Value>
type ChangingRow = ReturnType<typeof changingPart>

const changingColumns = [
  'status',
  'output',
  'error',
  'iteration',
  'state',
  'changed_at',
  'ended_at',
  'wake_at',
  'waiting_for',
  'claim',
  'cancel_requested',
  'last_sequence',
  'ended_sequence',
] as const
const insertRun = statement<RunRow>('run-store.insertRun')((db, _arg, { columns }) =>
  db
    .insertInto('runs')
    .values(
      columns([
        'tenant',
        'id',
        'kind',
        'subject_id',
        'subject_name',
        'subject_version',
        'owner',
        'principal',
        'parent_id',
        'root_id',
        'depth',
        'input',
        'started_at',
        'node',
        ...changingColumns,
      ]),
    ),
)
const saveRun = statement<ChangingRow & RowId>('run-store.saveRun')((db, arg, { columns }) =>
  db.updateTable('runs').set(columns(changingColumns)).where('tenant', '=', arg('tenant')).where('id', '=', arg('id')),
)
const deleteRun = statement<RowId>('run-store.deleteRun')((db, arg) =>
  db.deleteFrom('runs').where('tenant', '=', arg('tenant')).where('id', '=', arg('id')),
)
const deleteEvents = statement<RowId>('run-store.deleteEvents')((db, arg) =>
  db.deleteFrom('run_journal').where('tenant', '=', arg('tenant')).where('run_id', '=', arg('id')),
)
const findRun = statement<RowId>('run-store.findRun')((db, arg) =>
  db.selectFrom('runs').selectAll().where('tenant', '=', arg('tenant')).where('id', '=', arg('id')),
)
const runsUnder = statement<{ tenant: string; root_id: string }>('run-store.runsUnder')((db, arg) =>
  db
    .selectFrom('runs')
    .selectAll()
    .where('tenant', '=', arg('tenant'))
    .where('root_id', '=', arg('root_id'))
    .orderBy('depth')
    .orderBy('started_at')
    .orderBy('id'),
)
const openRunsOnNode = statement<{ node: string }>('run-store.openRunsOnNode')((db, arg, { sql }) =>
  db
    .selectFrom('runs')
    .selectAll()
    .where('node', '=', arg('node'))
    .where(sql<boolean>`status in ('pending', 'running')`)
    .orderBy('started_at')
    .orderBy('depth')
    .orderBy('id'),
)
const insertEvent = statement<EventRow>('run-store.insertEvent')((db, _arg, { columns }) =>
  db
    .insertInto('run_journal')
    .values(columns(['tenant', 'run_id', 'sequence', 'type', 'key', 'payload', 'state', 'iteration', 'at'])),
)
const listEvents = statement<{ tenant: string; run_id: string; after: number; limit: number }>('run-store.listEvents')(
  (db, arg) =>
    db
      .selectFrom('run_journal')
      .selectAll()
      .where('tenant', '=', arg('tenant'))
      .where('run_id', '=', arg('run_id'))
      .where('sequence', '>', arg('after'))
      .orderBy('sequence')
      .limit(arg('limit')),
)

type RunConditions = Omit<RunFilter, 'limit' | 'offset'>

const isOpen = (status: RunStatus | undefined): boolean => status === 'pending' || status === 'running'
const shapeOf = ({ subjectId, owner, status, rootsOnly }: RunConditions): string =>
  [subjectId && 's', owner !== undefined && 'o', status && 't', isOpen(status) && 'p', rootsOnly && 'r']
    .filter(Boolean)
    .join('')
const usualShapes = ['', 's', 'o', 'so', 'tp', 'otp']

const filtered = (shape: string, ...[db, arg, { sql }]: Parameters<Builder<Args, RunRow>>) => {
  let rows = db
    .selectFrom('runs')
    .where('tenant', '=', arg('tenant') as string)
    .where('kind', '=', arg('kind') as string)
  if (shape.includes('s')) rows = rows.where('subject_id', '=', arg('subject_id') as string)
  if (shape.includes('o')) rows = rows.where('owner', '=', arg('owner') as string)
  if (shape.includes('t')) rows = rows.where('status', '=', arg('status') as string)
  // With this wording the databases can use the index of open runs.
  if (shape.includes('p')) rows = rows.where(sql<boolean>`status in ('pending', 'running')`)
  if (shape.includes('r')) rows = rows.where('parent_id', 'is', null)
  return rows
}
const listFamily = statementFamily<Args, RunRow>(
  'run-store.listFamily',
  (shape) => (db, arg, kit) =>
    filtered(shape, db, arg, kit)
      .selectAll()
      .orderBy('started_at', 'desc')
      .orderBy('id', 'desc')
      .limit(arg('limit') as number)
      .offset(arg('offset') as number),
  usualShapes,
)
const countFamily = statementFamily<Args, { count: number }>(
  'run-store.countFamily',
  (shape) => (db, arg, kit) =>
    filtered(shape, db, arg, kit).select((expression) => expression.fn.countAll<number>().as('count')),
  usualShapes,
)
const positionFamily = statementFamily<Args, Pick<RunRow, 'id' | 'changed_at' | 'last_sequence'>>(
  'run-store.positionFamily',
  (shape) => (db, arg, kit) =>
    filtered(shape, db, arg, kit)
      .select(['id', 'changed_at', 'last_sequence'])
      .orderBy('started_at', 'desc')
      .orderBy('id', 'desc')
      .limit(arg('limit') as number),
  ['s', 'so'],
)

const argsOf = (tenant: string, conditions: RunConditions): Args => ({
  tenant,
  kind: conditions.kind,
  subject_id: conditions.subjectId ?? null,
  owner: conditions.owner ?? null,
  status: conditions.status ?? null,
})

export const sqlRunStore: RunStore = {
  async insertRun(tx, run) {
    await writerOf(tx, run.tenant).run(insertRun, toRow(run))
  },
  async saveRun(tx, run) {
    await writerOf(tx, run.tenant).run(saveRun, { tenant: run.tenant, id: run.id, ...changingPart(run) })
  },
  async deleteRun(tx, tenant, id) {
    const writer = writerOf(tx, tenant)
    await writer.run(deleteEvents, { tenant, id })
    await writer.run(deleteRun, { tenant, id })
  },
  async findRun(tx, tenant, id) {
    const row = await sessionOf(tx).get(findRun, { tenant, id })
    return row === undefined ? undefined : fromRow(row)
  },
  async listRuns(tx, tenant, filter) {
    const args = { ...argsOf(tenant, filter), limit: filter.limit, offset: filter.offset ?? 0 }
    return (await sessionOf(tx).all(listFamily(shapeOf(filter)), args)).map(fromRow)
  },
  async countRuns(tx, tenant, filter) {
    return Number((await sessionOf(tx).get(countFamily(shapeOf(filter)), argsOf(tenant, filter)))?.count ?? 0)
  },
  async runPositions(tx, tenant, { limit, ...conditions }) {
    const filter = { kind: 'execution' as const, ...conditions }
    const rows = await sessionOf(tx).all(positionFamily(shapeOf(filter)), { ...argsOf(tenant, filter), limit })
    return rows.map((row) => ({ id: row.id, changedAtMs: row.changed_at, lastSequence: row.last_sequence }))
  },
  async runsUnder(tx, tenant, rootId) {
    return (await sessionOf(tx).all(runsUnder, { tenant, root_id: rootId })).map(fromRow)
  },
  async openRunsOnNode(tx, node) {
    return (await sessionOf(tx).all(openRunsOnNode, { node })).map(fromRow)
  },
  async insertEvent(tx, tenant, runId, event) {
    await writerOf(tx, tenant).run(insertEvent, {
      tenant,
      run_id: runId,
      sequence: event.sequence,
      type: event.type,
      key: event.key,
      payload: event.payloadText,
      state: event.state,
      iteration: event.iteration,
      at: event.atMs,
    })
  },
  async listEvents(tx, tenant, runId, { after, limit }) {
    const rows = await sessionOf(tx).all(listEvents, { tenant, run_id: runId, after, limit })
    return rows.map(
      (row): StoredEvent => ({
        sequence: row.sequence,
        type: row.type,
        key: row.key,
        payloadText: row.payload,
        state: row.state,
        iteration: row.iteration,
        atMs: row.at,
      }),
    )
  },
}

const toRow = (run: Run): RunRow => ({
  tenant: run.tenant,
  id: run.id,
  kind: run.kind,
  subject_id: run.subjectId,
  subject_name: run.subjectName,
  subject_version: run.subjectVersion,
  owner: run.owner,
  principal: writePrincipal(run.principal),
  parent_id: run.parentId,
  root_id: run.rootId,
  depth: run.depth,
  input: JSON.stringify(run.input),
  started_at: run.startedAtMs,
  node: run.node,
  ...changingPart(run),
})

/** The input can be large, so it is not rewritten with every step. */
const changingPart = (run: Run) => ({
  status: run.status as string,
  output: JSON.stringify(run.output),
  error: run.error === null ? null : JSON.stringify(run.error),
  iteration: run.iteration,
  state: run.state,
  changed_at: run.changedAtMs,
  ended_at: run.endedAtMs,
  wake_at: run.wakeAtMs,
  waiting_for: run.waitingFor,
  claim: run.claim,
  cancel_requested: run.cancelRequested ? 1 : 0,
  last_sequence: run.lastSequence,
  ended_sequence: run.endedAtMs === null ? null : run.lastSequence,
})

const fromRow = (row: RunRow): Run => ({
  tenant: tenantId(row.tenant),
  id: row.id,
  kind: row.kind as RunKind,
  subjectId: row.subject_id,
  subjectName: row.subject_name,
  subjectVersion: row.subject_version,
  owner: row.owner,
  principal: readPrincipal(row.principal),
  parentId: row.parent_id,
  rootId: row.root_id,
  depth: row.depth,
  input: JSON.parse(row.input) as Json,
  status: row.status as RunStatus,
  output: JSON.parse(row.output) as Json,
  error: row.error === null ? null : (JSON.parse(row.error) as RunError),
  iteration: row.iteration,
  state: row.state,
  startedAtMs: row.started_at,
  changedAtMs: row.changed_at,
  endedAtMs: row.ended_at,
  wakeAtMs: row.wake_at,
  waitingFor: row.waiting_for,
  node: row.node,
  claim: row.claim,
  cancelRequested: row.cancel_requested === 1,
  lastSequence: row.last_sequence,
})
