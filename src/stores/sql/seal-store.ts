import type { Selectable } from 'kysely'
import type { SealSession, SealStore } from '../../domains/seal/ports.ts'
import { rowMap } from './row-map.ts'
import type { SealMessageTable, SealSessionTable } from './schema.ts'
import { statement } from './statements.ts'
import { sessionOf, writerOf } from './tx.ts'

type SessionRow = Selectable<SealSessionTable>
type MessageRow = Selectable<SealMessageTable>
type SessionId = { tenant: string; id: string }

const sessions = rowMap<SessionRow, SealSession>()({
  tenant: 'tenant',
  id: 'id',
  identity: 'identity',
  tokenHash: 'token_hash',
  publicKey: 'public_key',
  context: 'context',
  agentId: 'agent_id',
  executionId: 'execution_id',
  workloadId: 'workload_id',
  taskSummary: 'task_summary',
  createdAtMs: 'created_at',
  createdBy: 'created_by',
  expiresAtMs: 'expires_at',
  revokedAtMs: 'revoked_at',
})

const insertSession = statement<SessionRow>('seal-store.insertSession')((db, _arg, { columns }) =>
  db.insertInto('seal_sessions').values(columns(sessions.columns)),
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
    await writerOf(tx, tenant).run(insertSession, sessions.toRow(tenant, session))
  },
  async findSession(tx, tenant, id) {
    return sessions.found(await sessionOf(tx).get(findSession, { tenant, id }))
  },
  async listSessions(tx, tenant, { identity, limit }) {
    const session = sessionOf(tx)
    const rows =
      identity === undefined
        ? await session.all(listSessions, { tenant, limit })
        : await session.all(listSessionsOf, { tenant, identity, limit })
    return rows.map(sessions.fromRow)
  },
  async liveSessions(tx, tenant, identity, nowMs) {
    return (await sessionOf(tx).all(liveSessions, { tenant, identity, now: nowMs })).map(sessions.fromRow)
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
