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
    .where('id_hash', '=', arg('id_hash'))
    .where('ended_at', 'is', null),
)
const choose = statement<RowId & { choices: string; at: number }>('mcp-session-store.choose')((db, arg) =>
  db
    .updateTable('mcp_sessions')
    .set({ choices: arg('choices'), chosen_at: arg('at') })
    .where('tenant', '=', arg('tenant'))
    .where('id_hash', '=', arg('id_hash'))
    .where('ended_at', 'is', null),
)
const chosenSince = statement<{ tenant: string; since: number }>('mcp-session-store.chosenSince')((db, arg) =>
  db
    .selectFrom('mcp_sessions')
    .select(['id_hash', 'choices'])
    .where('tenant', '=', arg('tenant'))
    .where('chosen_at', '>=', arg('since')),
)
const endedSince = statement<{ tenant: string; since: number }>('mcp-session-store.endedSince')((db, arg) =>
  db
    .selectFrom('mcp_sessions')
    .select('id_hash')
    .where('tenant', '=', arg('tenant'))
    .where('ended_at', '>=', arg('since')),
)
/** Whether the connection has read untrusted data. Its row says until when the trust of the connection must be stored. */
const isUntrusted = ({ sql }: Kit) =>
  sql<boolean>`exists (select 1 from context_trust where context_trust.tenant = mcp_sessions.tenant
    and context_trust.context = 'session:' || substr(mcp_sessions.id_hash, 1, 32))`
/** The row stays for a while, and counts as idle for too long: other processes on the store learn of the end from it. */
const markEnded = statement<RowId & { at: number; idle: number }>('mcp-session-store.end')((db, arg) =>
  db
    .updateTable('mcp_sessions')
    .set((row) => ({ ended_at: arg('at'), used_at: row('used_at', '-', arg('idle')) }))
    .where('tenant', '=', arg('tenant'))
    .where('id_hash', '=', arg('id_hash'))
    .where('ended_at', 'is', null),
)
type Idle = { tenant: string; before: number; ended: number }
const removeIdle = statement<Idle>('mcp-session-store.removeIdle')((db, arg, kit) =>
  db
    .deleteFrom('mcp_sessions')
    .where('tenant', '=', arg('tenant'))
    .where('used_at', '<', arg('before'))
    .where((row) => row.or([row('ended_at', 'is', null), row('ended_at', '<', arg('ended'))]))
    .where(kit.sql<boolean>`not ${isUntrusted(kit)}`),
)
const ofIdentity = statement<{ tenant: string; identity: string }>('mcp-session-store.ofIdentity')((db, arg) =>
  db
    .selectFrom('mcp_sessions')
    .select('id_hash')
    .where('tenant', '=', arg('tenant'))
    .where('identity', '=', arg('identity'))
    .where('ended_at', 'is', null)
    .orderBy('used_at', 'desc'),
)

/** Sessions of clients that outlive the process. Each change is a commit of its own. */
export const sqlMcpSessions = (database: Pick<Database, 'read' | 'write'>): McpSessionMemory => ({
  save: (tenant, { idHash, identity, initialize, usedAtMs }) =>
    database.write(tenant, async (tx) => {
      const writer = writerOf(tx, tenant)
      const ended = usedAtMs - limits.mcpSessionEndedMs
      await writer.run(removeIdle, { tenant, before: usedAtMs - limits.httpSessionIdleMs, ended })
      const own = await sessionOf(tx).all(ofIdentity, { tenant, identity })
      for (const { id_hash } of own.slice(limits.httpSessionsPerIdentityMax - 1)) {
        await end(writer, tenant, id_hash, usedAtMs)
      }
      await writer.run(put, { tenant, id_hash: idHash, identity, initialize, used_at: usedAtMs })
    }),
  async find(tenant, idHash) {
    const row = await sessionOf(database.read).get(get, { tenant, id_hash: idHash })
    if (row === undefined || row.ended_at !== null) return undefined
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
  end: (tenant, idHash, atMs) =>
    database.write(tenant, async (tx) => {
      await end(writerOf(tx, tenant), tenant, idHash, atMs)
    }),
  async endedSince(tenant, since) {
    const rows = await sessionOf(database.read).all(endedSince, { tenant, since })
    return new Set(rows.map(({ id_hash }) => id_hash))
  },
})

async function end(writer: Pick<Session, 'run'>, tenant: string, id_hash: string, at: number): Promise<void> {
  await writer.run(markEnded, { tenant, id_hash, at, idle: limits.httpSessionIdleMs + 1 })
}
