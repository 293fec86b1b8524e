import type { Selectable } from 'kysely'
import type { Database } from '../../contract/database.ts'
import { limits } from '../../contract/limits.ts'
import type { McpSessionMemory } from '../../contract/mcp-sessions.ts'
import type { McpSessionTable } from './governance-schema.ts'
import { statement } from './statements.ts'
import { sessionOf, writerOf } from './tx.ts'

type Row = Selectable<McpSessionTable>
type RowId = { tenant: string; id_hash: string }

const put = statement<Row>('mcp-session-store.put')((db, arg) =>
  db.insertInto('mcp_sessions').values({
    tenant: arg('tenant'),
    id_hash: arg('id_hash'),
    identity: arg('identity'),
    initialize: arg('initialize'),
    used_at: arg('used_at'),
  }),
)
const get = statement<RowId>('mcp-session-store.get')((db, arg) =>
  db.selectFrom('mcp_sessions').selectAll().where('tenant', '=', arg('tenant')).where('id_hash', '=', arg('id_hash')),
)
const touch = statement<RowId & { used_at: number }>('mcp-session-store.touch')((db, arg) =>
  db
    .updateTable('mcp_sessions')
    .set({ used_at: arg('used_at') })
    .where('tenant', '=', arg('tenant'))
    .where('id_hash', '=', arg('id_hash')),
)
const remove = statement<RowId>('mcp-session-store.remove')((db, arg) =>
  db.deleteFrom('mcp_sessions').where('tenant', '=', arg('tenant')).where('id_hash', '=', arg('id_hash')),
)
const removeIdle = statement<{ tenant: string; before: number }>('mcp-session-store.removeIdle')((db, arg) =>
  db.deleteFrom('mcp_sessions').where('tenant', '=', arg('tenant')).where('used_at', '<', arg('before')),
)
const ofIdentity = statement<{ tenant: string; identity: string }>('mcp-session-store.ofIdentity')((db, arg) =>
  db
    .selectFrom('mcp_sessions')
    .select('id_hash')
    .where('tenant', '=', arg('tenant'))
    .where('identity', '=', arg('identity'))
    .orderBy('used_at', 'desc'),
)

/** Sessions of clients that outlive the process. Each change is a commit of its own. */
export const sqlMcpSessions = (database: Pick<Database, 'read' | 'write'>): McpSessionMemory => ({
  save: (tenant, { idHash, identity, initialize, usedAtMs }) =>
    database.write(tenant, async (tx) => {
      const writer = writerOf(tx, tenant)
      await writer.run(removeIdle, { tenant, before: usedAtMs - limits.httpSessionIdleMs })
      const own = await sessionOf(tx).all(ofIdentity, { tenant, identity })
      for (const { id_hash } of own.slice(limits.httpSessionsPerIdentityMax - 1)) {
        await writer.run(remove, { tenant, id_hash })
      }
      await writer.run(put, { tenant, id_hash: idHash, identity, initialize, used_at: usedAtMs })
    }),
  async find(tenant, idHash) {
    const row = await sessionOf(database.read).get(get, { tenant, id_hash: idHash })
    if (row === undefined) return undefined
    return { idHash: row.id_hash, identity: row.identity, initialize: row.initialize, usedAtMs: row.used_at }
  },
  touch: (tenant, idHash, atMs) =>
    database.write(tenant, async (tx) => {
      await writerOf(tx, tenant).run(touch, { tenant, id_hash: idHash, used_at: atMs })
    }),
  remove: (tenant, idHash) =>
    database.write(tenant, async (tx) => {
      await writerOf(tx, tenant).run(remove, { tenant, id_hash: idHash })
    }),
})
