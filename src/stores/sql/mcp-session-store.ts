import type { Selectable } from 'kysely'
import type { Database } from '../../contract/database.ts'
import { limits } from '../../contract/limits.ts'
import type { McpSessionMemory } from '../../contract/mcp-sessions.ts'
import type { McpSessionTable } from './governance-schema.ts'
import { type Kit, type Session, statement } from './statements.ts'
import { sessionOf, writerOf } from './tx.ts'

type Row = Pick<Selectable<McpSessionTable>, 'tenant' | 'id_hash' | 'identity' | 'initialize' | 'used_at'>
type RowId = { tenant: string; id_hash: string }

const put = statement<Row>('mcp-session-store.put')((db, _arg, { columns }) =>
  db.insertInto('mcp_sessions').values(columns(['tenant', 'id_hash', 'identity', 'initialize', 'used_at'])),
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
const choose = statement<RowId & { choices: string; at: number }>('mcp-session-store.choose')((db, arg) =>
  db
    .updateTable('mcp_sessions')
    .set({ choices: arg('choices'), chosen_at: arg('at') })
    .where('tenant', '=', arg('tenant'))
    .where('id_hash', '=', arg('id_hash')),
)
const chosenSince = statement<{ tenant: string; since: number }>('mcp-session-store.chosenSince')((db, arg) =>
  db
    .selectFrom('mcp_sessions')
    .select(['id_hash', 'choices'])
    .where('tenant', '=', arg('tenant'))
    .where('chosen_at', '>=', arg('since')),
)
/** Whether the connection has read untrusted data. Its row says until when the trust of the connection must be stored. */
const isUntrusted = ({ sql }: Kit) =>
  sql<boolean>`exists (select 1 from context_trust where context_trust.tenant = mcp_sessions.tenant
    and context_trust.context = 'session:' || substr(mcp_sessions.id_hash, 1, 32))`
const remove = statement<RowId>('mcp-session-store.remove')((db, arg, kit) =>
  db
    .deleteFrom('mcp_sessions')
    .where('tenant', '=', arg('tenant'))
    .where('id_hash', '=', arg('id_hash'))
    .where(kit.sql<boolean>`not ${isUntrusted(kit)}`),
)
/** The session has ended. If another process still uses it, that process records its use again. */
const expire = statement<RowId & { idle: number }>('mcp-session-store.expire')((db, arg) =>
  db
    .updateTable('mcp_sessions')
    .set((row) => ({ used_at: row('used_at', '-', arg('idle')) }))
    .where('tenant', '=', arg('tenant'))
    .where('id_hash', '=', arg('id_hash')),
)
const removeIdle = statement<{ tenant: string; before: number }>('mcp-session-store.removeIdle')((db, arg, kit) =>
  db
    .deleteFrom('mcp_sessions')
    .where('tenant', '=', arg('tenant'))
    .where('used_at', '<', arg('before'))
    .where(kit.sql<boolean>`not ${isUntrusted(kit)}`),
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
        await end(writer, tenant, id_hash)
      }
      await writer.run(put, { tenant, id_hash: idHash, identity, initialize, used_at: usedAtMs })
    }),
  async find(tenant, idHash) {
    const row = await sessionOf(database.read).get(get, { tenant, id_hash: idHash })
    if (row === undefined) return undefined
    const { id_hash, identity, initialize, choices, used_at: usedAtMs } = row
    return { idHash: id_hash, identity, initialize, choices: choices ?? undefined, usedAtMs }
  },
  setChoices: (tenant, idHash, choices, atMs) =>
    database.write(tenant, async (tx) => {
      await writerOf(tx, tenant).run(choose, { tenant, id_hash: idHash, choices, at: atMs })
    }),
  async choicesSince(tenant, since) {
    const rows = await sessionOf(database.read).all(chosenSince, { tenant, since })
    return new Map(rows.map(({ id_hash, choices }) => [id_hash, choices ?? '{}']))
  },
  touch: (tenant, idHash, atMs) =>
    database.write(tenant, async (tx) => {
      await writerOf(tx, tenant).run(touch, { tenant, id_hash: idHash, used_at: atMs })
    }),
  remove: (tenant, idHash) =>
    database.write(tenant, async (tx) => {
      await end(writerOf(tx, tenant), tenant, idHash)
    }),
})

async function end(writer: Pick<Session, 'run'>, tenant: string, id_hash: string): Promise<void> {
  if ((await writer.run(remove, { tenant, id_hash })) > 0) return
  await writer.run(expire, { tenant, id_hash, idle: limits.httpSessionIdleMs + 1 })
}
