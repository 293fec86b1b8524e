import type { Selectable } from 'kysely'
import { tenantId } from '../../contract/principal.ts'
import type { SealSession, SealStore } from '../../domains/seal/ports.ts'
import type { SealMessageTable, SealSessionTable } from './schema.ts'
import { statement } from './statements.ts'
import { sessionOf, writerOf } from './tx.ts'

type SessionRow = Selectable<SealSessionTable>
type MessageRow = Selectable<SealMessageTable>
type SessionId = { tenant: string; id: string }

const insertSession = statement<SessionRow>('seal-store.insertSession')((db, _arg, { columns }) =>
  db
    .insertInto('seal_sessions')
    .values(
      columns([
        'tenant',
        'id',
        'identity',
        'token_hash',
        'public_key',
        'context',
        'agent_id',
        'execution_id',
        'workload_id',
        'task_summary',
        'created_at',
        'created_by',
        'expires_at',
        'revoked_at',
      ]),
    ),
)
const findSession = statement<SessionId>('seal-store.findSession')((db, arg) =>
  db.selectFrom('seal_sessions').selectAll().where('tenant', '=', arg('tenant')).where('id', '=', arg('id')),
)
const listSessions = statement<{ tenant: string; limit: number }>('seal-store.listSessions')((db, arg) =>
  db
    .selectFrom('seal_sessions')
    .selectAll()
    .where('tenant', '=', arg('tenant'))
    .orderBy('created_at', 'desc')
    .orderBy('id')
    .limit(arg('limit')),
)
const listSessionsOf = statement<{ tenant: string; identity: string; limit: number }>('seal-store.listSessionsOf')(
  (db, arg) =>
    db
      .selectFrom('seal_sessions')
      .selectAll()
      .where('tenant', '=', arg('tenant'))
      .where('identity', '=', arg('identity'))
      .orderBy('created_at', 'desc')
      .orderBy('id')
      .limit(arg('limit')),
)
const liveSessions = statement<{ tenant: string; identity: string; now: number }>('seal-store.liveSessions')(
  (db, arg) =>
    db
      .selectFrom('seal_sessions')
      .selectAll()
      .where('tenant', '=', arg('tenant'))
      .where('identity', '=', arg('identity'))
      .where('expires_at', '>', arg('now'))
      .where('revoked_at', 'is', null)
      .orderBy('created_at')
      .orderBy('id'),
)
const revokeSession = statement<SessionId & { at: number }>('seal-store.revokeSession')((db, arg) =>
  db
    .updateTable('seal_sessions')
    .set({ revoked_at: arg('at') })
    .where('tenant', '=', arg('tenant'))
    .where('id', '=', arg('id'))
    .where('revoked_at', 'is', null),
)
const findMessage = statement<{ tenant: string; digest: string }>('seal-store.findMessage')((db, arg) =>
  db
    .selectFrom('seal_messages')
    .select('digest')
    .where('tenant', '=', arg('tenant'))
    .where('digest', '=', arg('digest')),
)
const insertMessage = statement<MessageRow>('seal-store.insertMessage')((db, arg) =>
  db
    .insertInto('seal_messages')
    .values({ tenant: arg('tenant'), digest: arg('digest'), kept_until: arg('kept_until') }),
)
const deleteMessages = statement<{ tenant: string; before: number }>('seal-store.deleteMessages')((db, arg) =>
  db.deleteFrom('seal_messages').where('tenant', '=', arg('tenant')).where('kept_until', '<', arg('before')),
)
const deleteSessions = statement<{ tenant: string; before: number }>('seal-store.deleteSessions')((db, arg) =>
  db.deleteFrom('seal_sessions').where('tenant', '=', arg('tenant')).where('expires_at', '<', arg('before')),
)

export const sqlSealStore: SealStore = {
  async insertSession(tx, tenant, session) {
    await writerOf(tx, tenant).run(insertSession, toRow(tenant, session))
  },
  async findSession(tx, tenant, id) {
    const row = await sessionOf(tx).get(findSession, { tenant, id })
    return row === undefined ? undefined : fromRow(row)
  },
  async listSessions(tx, tenant, { identity, limit }) {
    const session = sessionOf(tx)
    const rows =
      identity === undefined
        ? await session.all(listSessions, { tenant, limit })
        : await session.all(listSessionsOf, { tenant, identity, limit })
    return rows.map(fromRow)
  },
  async liveSessions(tx, tenant, identity, nowMs) {
    return (await sessionOf(tx).all(liveSessions, { tenant, identity, now: nowMs })).map(fromRow)
  },
  async revokeSession(tx, tenant, id, atMs) {
    return (await writerOf(tx, tenant).run(revokeSession, { tenant, id, at: atMs })) > 0
  },
  // The transaction is the tenant's only writer, so no other writer interferes.
  async takeMessage(tx, tenant, digest, retainedUntilMs) {
    const writer = writerOf(tx, tenant)
    if ((await writer.get(findMessage, { tenant, digest })) !== undefined) return false
    await writer.run(insertMessage, { tenant, digest, kept_until: retainedUntilMs })
    return true
  },
  async forgetEnded(tx, tenant, before) {
    const writer = writerOf(tx, tenant)
    await writer.run(deleteMessages, { tenant, before: before.messagesRetainedUntilMs })
    await writer.run(deleteSessions, { tenant, before: before.sessionsExpiredMs })
  },
}

function toRow(tenant: string, session: SealSession): SessionRow {
  return {
    tenant,
    id: session.id,
    identity: session.identity,
    token_hash: session.tokenHash,
    public_key: session.publicKey,
    context: session.context,
    agent_id: session.agentId,
    execution_id: session.executionId,
    workload_id: session.workloadId,
    task_summary: session.taskSummary,
    created_at: session.createdAtMs,
    created_by: session.createdBy,
    expires_at: session.expiresAtMs,
    revoked_at: session.revokedAtMs,
  }
}

const fromRow = (row: SessionRow): SealSession => ({
  tenant: tenantId(row.tenant),
  id: row.id,
  identity: row.identity,
  tokenHash: row.token_hash,
  publicKey: row.public_key,
  context: row.context,
  agentId: row.agent_id,
  executionId: row.execution_id,
  workloadId: row.workload_id,
  taskSummary: row.task_summary,
  createdAtMs: row.created_at,
  createdBy: row.created_by,
  expiresAtMs: row.expires_at,
  revokedAtMs: row.revoked_at,
})
