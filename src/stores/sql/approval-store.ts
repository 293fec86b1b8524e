import type { Selectable } from 'kysely'
import type { ApprovalStore, StoredApproval } from '../../domains/approvals/ports.ts'
import type { ApprovalTable } from './governance-schema.ts'
import { flag, json, rowMap } from './row-map.ts'
import { type Builder, statement, statementFamily } from './statements.ts'
import { sessionOf, writerOf } from './tx.ts'

type Row = Selectable<ApprovalTable>
type OfTenant = { tenant: string }
type RowId = OfTenant & { id: string }
type AtTime = { now: number }

const approvals = rowMap<Row, StoredApproval>()({
  tenant: 'tenant',
  id: 'id',
  toolId: 'tool_id',
  tool: 'tool',
  arguments: json('arguments'),
  isMasked: flag('is_masked'),
  argumentsDigest: 'arguments_digest',
  reason: 'reason',
  policy: 'policy',
  requester: 'requester',
  requestedBy: 'requested_by',
  context: 'context',
  startedFrom: 'started_from',
  callId: 'call_id',
  runId: 'run_id',
  waitKey: 'wait_key',
  createdAtMs: 'created_at',
  status: 'status',
  expiresAtMs: 'expires_at',
  answeredAtMs: 'answered_at',
  answeredBy: 'answered_by',
  note: 'note',
  usedAtMs: 'used_at',
})

const movedColumns = ['status', 'expires_at', 'answered_at', 'answered_by', 'note', 'used_at'] as const
const insertApproval = statement<Row>('approval-store.insertApproval')((db, _arg, { columns }) =>
  db.insertInto('approvals').values(columns(approvals.columns)),
)
type Answered = Pick<
  Row,
  'tenant' | 'id' | 'status' | 'expires_at' | 'answered_at' | 'answered_by' | 'note' | 'used_at'
>
const moveApproval = statement<Answered & { from: string }>('approval-store.moveApproval')((db, arg, { columns }) =>
  db
    .updateTable('approvals')
    .set(columns(movedColumns))
    .where('tenant', '=', arg('tenant'))
    .where('id', '=', arg('id'))
    .where('status', '=', arg('from')),
)
const findApproval = statement<RowId>('approval-store.findApproval')((db, arg) =>
  db.selectFrom('approvals').selectAll().where('tenant', '=', arg('tenant')).where('id', '=', arg('id')),
)
type CallArgs = OfTenant & Pick<Row, 'requester' | 'context' | 'tool_id' | 'arguments_digest'> & AtTime
const findForCall = statementFamily<CallArgs, Row>(
  'approval-store.findForCall',
  (shape): Builder<CallArgs, Row> =>
    (db, arg) => {
      const ofCaller = db
        .selectFrom('approvals')
        .selectAll()
        .where('tenant', '=', arg('tenant'))
        .where('requester', '=', arg('requester'))
        .where('arguments_digest', '=', arg('arguments_digest'))
        .where('tool_id', '=', arg('tool_id'))
        .where('status', 'in', ['pending', 'approved', 'denied'])
        .where('expires_at', '>', arg('now'))
        .orderBy('created_at', 'desc')
        .orderBy('id')
        .limit(1)
      return shape === 'ofRun'
        ? ofCaller.where('context', '=', arg('context'))
        : ofCaller.where('started_from', 'is', null)
    },
  ['ofRun', 'outsideRuns'],
)
const listAll = statement<OfTenant & { limit: number }>('approval-store.listAll')((db, arg) =>
  db
    .selectFrom('approvals')
    .selectAll()
    .where('tenant', '=', arg('tenant'))
    .orderBy('created_at', 'desc')
    .orderBy('id')
    .limit(arg('limit')),
)
const listPending = statement<OfTenant & AtTime & { limit: number }>('approval-store.listPending')((db, arg) =>
  db
    .selectFrom('approvals')
    .selectAll()
    .where('tenant', '=', arg('tenant'))
    .where('status', '=', 'pending')
    .where('expires_at', '>', arg('now'))
    .orderBy('created_at', 'desc')
    .orderBy('id')
    .limit(arg('limit')),
)
const listOf = statement<OfTenant & { requester: string; limit: number }>('approval-store.listOf')((db, arg) =>
  db
    .selectFrom('approvals')
    .selectAll()
    .where('tenant', '=', arg('tenant'))
    .where('requester', '=', arg('requester'))
    .orderBy('created_at', 'desc')
    .orderBy('id')
    .limit(arg('limit')),
)
const listPendingOf = statement<OfTenant & AtTime & { requester: string; limit: number }>(
  'approval-store.listPendingOf',
)((db, arg) =>
  db
    .selectFrom('approvals')
    .selectAll()
    .where('tenant', '=', arg('tenant'))
    .where('requester', '=', arg('requester'))
    .where('status', '=', 'pending')
    .where('expires_at', '>', arg('now'))
    .orderBy('created_at', 'desc')
    .orderBy('id')
    .limit(arg('limit')),
)
const countPending = statement<OfTenant & AtTime & { requester: string }>('approval-store.countPending')(
  (db, arg, { sql }) =>
    db
      .selectFrom('approvals')
      .select(sql<number>`count(*)`.as('count'))
      .where('tenant', '=', arg('tenant'))
      .where('requester', '=', arg('requester'))
      .where('status', '=', 'pending')
      .where('expires_at', '>', arg('now')),
)
const deleteOver = statement<OfTenant & { before: number }>('approval-store.deleteOver')((db, arg) =>
  db.deleteFrom('approvals').where('tenant', '=', arg('tenant')).where('expires_at', '<', arg('before')),
)

export const sqlApprovalStore: ApprovalStore = {
  async insertApproval(tx, tenant, approval) {
    await writerOf(tx, tenant).run(insertApproval, approvals.toRow(tenant, approval))
  },
  async moveApproval(tx, tenant, approval, from) {
    const { id, status, expires_at, answered_at, answered_by, note, used_at } = approvals.toRow(tenant, approval)
    const row = { tenant, id, status, expires_at, answered_at, answered_by, note, used_at, from }
    return (await writerOf(tx, tenant).run(moveApproval, row)) > 0
  },
  async findApproval(tx, tenant, id) {
    return approvals.found(await sessionOf(tx).get(findApproval, { tenant, id }))
  },
  async findForCall(tx, tenant, { requester, context, startedFrom, toolId, argumentsDigest }, nowMs) {
    const key = { tenant, requester, context, tool_id: toolId, arguments_digest: argumentsDigest, now: nowMs }
    const shape = startedFrom === null ? 'outsideRuns' : 'ofRun'
    return approvals.found(await sessionOf(tx).get(findForCall(shape), key))
  },
  async listApprovals(tx, tenant, { requester, pendingAtMs: now, limit }) {
    const session = sessionOf(tx)
    const rows =
      requester === undefined
        ? now === undefined
          ? await session.all(listAll, { tenant, limit })
          : await session.all(listPending, { tenant, now, limit })
        : now === undefined
          ? await session.all(listOf, { tenant, requester, limit })
          : await session.all(listPendingOf, { tenant, requester, now, limit })
    return rows.map(approvals.fromRow)
  },
  async countPending(tx, tenant, requester, nowMs) {
    const row = await sessionOf(tx).get(countPending, { tenant, requester, now: nowMs })
    return Number(row!.count)
  },
  async deleteOver(tx, tenant, beforeMs) {
    await writerOf(tx, tenant).run(deleteOver, { tenant, before: beforeMs })
  },
}
