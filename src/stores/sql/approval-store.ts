import type { Selectable } from 'kysely'
import { type TenantId, tenantId } from '../../contract/principal.ts'
import type { ContextKey } from '../../contract/trust.ts'
import type { ApprovalStatus, ApprovalStore, StoredApproval } from '../../domains/approvals/ports.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import type { ApprovalTable } from './governance-schema.ts'
import { statement } from './statements.ts'
import { sessionOf, writerOf } from './tx.ts'

type Row = Selectable<ApprovalTable>
type OfTenant = { tenant: string }
type RowId = OfTenant & { id: string }
type AtTime = { now: number }

const movedColumns = ['status', 'expires_at', 'answered_at', 'answered_by', 'note', 'used_at'] as const
const insertApproval = statement<Row>('approval-store.insertApproval')((db, _arg, { columns }) =>
  db
    .insertInto('approvals')
    .values(
      columns([
        'tenant',
        'id',
        'tool_id',
        'tool',
        'arguments',
        'is_masked',
        'arguments_digest',
        'reason',
        'policy',
        'requester',
        'requested_by',
        'context',
        'started_from',
        'call_id',
        'run_id',
        'wait_key',
        'created_at',
        ...movedColumns,
      ]),
    ),
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
const findForCall = statement<OfTenant & Pick<Row, 'requester' | 'context' | 'tool_id' | 'arguments_digest'> & AtTime>(
  'approval-store.findForCall',
)((db, arg) =>
  db
    .selectFrom('approvals')
    .selectAll()
    .where('tenant', '=', arg('tenant'))
    .where('requester', '=', arg('requester'))
    .where('arguments_digest', '=', arg('arguments_digest'))
    .where('context', '=', arg('context'))
    .where('tool_id', '=', arg('tool_id'))
    .where('status', 'in', ['pending', 'approved', 'denied'])
    .where('expires_at', '>', arg('now'))
    .orderBy('created_at', 'desc')
    .orderBy('id')
    .limit(1),
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
    await writerOf(tx, tenant).run(insertApproval, toRow(tenant, approval))
  },
  async moveApproval(tx, tenant, approval, from) {
    const { id, status, expires_at, answered_at, answered_by, note, used_at } = toRow(tenant, approval)
    const row = { tenant, id, status, expires_at, answered_at, answered_by, note, used_at, from }
    return (await writerOf(tx, tenant).run(moveApproval, row)) > 0
  },
  async findApproval(tx, tenant, id) {
    const row = await sessionOf(tx).get(findApproval, { tenant, id })
    return row && fromRow(row)
  },
  async findForCall(tx, tenant, { requester, context, toolId, argumentsDigest }, nowMs) {
    const key = { tenant, requester, context, tool_id: toolId, arguments_digest: argumentsDigest, now: nowMs }
    const row = await sessionOf(tx).get(findForCall, key)
    return row && fromRow(row)
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
    return rows.map(fromRow)
  },
  async countPending(tx, tenant, requester, nowMs) {
    const row = await sessionOf(tx).get(countPending, { tenant, requester, now: nowMs })
    return Number(row!.count)
  },
  async deleteOver(tx, tenant, beforeMs) {
    await writerOf(tx, tenant).run(deleteOver, { tenant, before: beforeMs })
  },
}

const toRow = (tenant: TenantId, approval: StoredApproval): Row => ({
  tenant,
  id: approval.id,
  tool_id: approval.toolId,
  tool: approval.tool,
  arguments: JSON.stringify(approval.arguments),
  is_masked: approval.isMasked ? 1 : 0,
  arguments_digest: approval.argumentsDigest,
  reason: approval.reason,
  policy: approval.policy,
  requester: approval.requester,
  requested_by: approval.requestedBy,
  context: approval.context,
  started_from: approval.startedFrom,
  call_id: approval.callId,
  run_id: approval.runId,
  wait_key: approval.waitKey,
  status: approval.status,
  created_at: approval.createdAtMs,
  expires_at: approval.expiresAtMs,
  answered_at: approval.answeredAtMs,
  answered_by: approval.answeredBy,
  note: approval.note,
  used_at: approval.usedAtMs,
})

const fromRow = (row: Row): StoredApproval => ({
  tenant: tenantId(row.tenant),
  id: row.id,
  toolId: row.tool_id,
  tool: row.tool,
  arguments: JSON.parse(row.arguments) as Json,
  isMasked: row.is_masked === 1,
  argumentsDigest: row.arguments_digest,
  reason: row.reason,
  policy: row.policy,
  requester: row.requester,
  requestedBy: row.requested_by,
  context: row.context as ContextKey,
  startedFrom: row.started_from as ContextKey | null,
  callId: row.call_id,
  runId: row.run_id,
  waitKey: row.wait_key,
  status: row.status as ApprovalStatus,
  createdAtMs: row.created_at,
  expiresAtMs: row.expires_at,
  answeredAtMs: row.answered_at,
  answeredBy: row.answered_by,
  note: row.note,
  usedAtMs: row.used_at,
})
