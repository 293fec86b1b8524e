import type { Kysely } from 'kysely'
import type { LogEntry, LogStore } from '../../audit/ports.ts'
import { appendLeaf, leafHash } from '../../audit/tree.ts'
import { tenantId } from '../../contract/principal.ts'
import { firstRowIdSql, numberByRowId, rowIdOf, rowsFrom } from './row-ids.ts'
import type { Schema } from './schema.ts'
import { type Kit, statement, statementFamily } from './statements.ts'
import { listTrailInSqlite } from './trail-index.ts'
import { headOf, sessionOf } from './tx.ts'

const insertEntry = statement<{
  row_id: number
  tenant: string
  seq: number
  at: number
  record: string
  nodes: Uint8Array
  task_number: number | null
  record_hash: string | null
}>('log-store.insertEntry')((db, arg, { dialect }) =>
  db.insertInto('log_entries').values({
    ...(dialect === 'sqlite' ? { row_id: arg('row_id') } : {}),
    tenant: arg('tenant'),
    seq: arg('seq'),
    at: arg('at'),
    record: arg('record'),
    nodes: arg('nodes'),
    task_number: arg('task_number'),
    record_hash: arg('record_hash'),
  }),
)
const findHead = statement<{ tenant: string }>('log-store.findHead')((db, arg) =>
  db.selectFrom('log_heads').select(['size', 'peaks']).where('tenant', '=', arg('tenant')),
)

type PageArgs = { tenant: string; from_seq: number; limit: number }
type Arg = <Name extends keyof PageArgs>(name: Name) => PageArgs[Name]

const seqOf = ({ dialect, sql }: Kit, tenant: string) =>
  (dialect === 'sqlite' ? numberByRowId(sql, tenant) : sql<number>`seq`).as('seq')

/** The entries of a tenant from a position on, in order. */
function pageOf(db: Kysely<Schema>, arg: Arg, { dialect, sql }: Kit) {
  const page = db.selectFrom('log_entries').limit(arg('limit'))
  if (dialect === 'postgres') {
    return page.where('tenant', '=', arg('tenant')).where('seq', '>=', arg('from_seq')).orderBy('seq')
  }
  return page.where(rowsFrom(sql, arg('tenant'), arg('from_seq'))).orderBy('row_id')
}

const listEntries = statement<PageArgs>('log-store.listEntries')((db, arg, kit) =>
  pageOf(db, arg, kit).select([seqOf(kit, arg('tenant')), 'record', 'nodes', 'task_number', 'record_hash']),
)
const listRawEntries = statement<PageArgs>('log-store.listRawEntries')((db, arg, kit) => {
  const { dialect, sql } = kit
  const bytes =
    dialect === 'sqlite' ? sql<Uint8Array>`cast(record as blob)` : sql<Uint8Array>`convert_to(record, 'UTF8')`
  return pageOf(db, arg, kit).select([
    seqOf(kit, arg('tenant')),
    bytes.as('record'),
    'nodes',
    'task_number as taskNumber',
    'record_hash as recordHash',
  ])
})
/** A proof needs at most two nodes per level, so the number of shapes is bounded by the height of the tree. */
const nodesFamily = statementFamily<Record<string, string | number>, { seq: number; nodes: Uint8Array }>(
  'log-store.nodesFamily',
  (shape) => (db, arg, kit) => {
    const { dialect, sql } = kit
    const tenant = arg('tenant') as string
    const seqs = Array.from({ length: Number(shape) }, (_, index) => arg(`seq${index}`) as number)
    const rows = db
      .selectFrom('log_entries')
      .select([seqOf(kit, tenant), 'nodes'])
      .where('tenant', '=', tenant)
    if (dialect === 'postgres') return rows.where('seq', 'in', seqs)
    const ids = seqs.map((seq) => sql<number>`${firstRowIdSql(sql, tenant)} + ${seq}`)
    return rows.where('row_id', 'in', ids)
  },
  ['1', '2', '4', '8', '16', '32', '64'],
)
const listTrail = statement<{ tenant: string; number: number; from_seq: number; to_seq: number }>(
  'log-store.listTrail',
)((db, arg) =>
  db
    .selectFrom('log_entries')
    .select(['seq', 'record_hash', 'at'])
    .where('tenant', '=', arg('tenant'))
    .where('task_number', '=', arg('number'))
    .where('seq', '>=', arg('from_seq'))
    .where('seq', '<', arg('to_seq'))
    .orderBy('seq'),
)
const listTenants = statement<Record<never, never>>('log-store.listTenants')((db, _arg, { dialect }) =>
  db
    .selectFrom('log_heads')
    .select('tenant')
    .orderBy('tenant', (order) => (dialect === 'postgres' ? order.collate('C') : order)),
)

export const sqlLogStore: LogStore = {
  nextSeq: (tx, tenant) => headOf(tx, tenant).state.size,
  async appendEntry(tx, tenant, entry) {
    const head = headOf(tx, tenant)
    const seq = head.state.size
    const appended = appendLeaf(head.state, leafHash(entry.record))
    await sessionOf(tx).run(insertEntry, {
      row_id: rowIdOf(head.firstId, seq),
      tenant,
      seq,
      at: entry.atMs,
      record: entry.record,
      nodes: appended.nodes,
      task_number: entry.taskNumber,
      record_hash: entry.recordHash,
    })
    head.state.size = appended.head.size
    head.state.peaks = appended.head.peaks
    head.changed = true
  },
  async head(tx, tenant) {
    const row = await sessionOf(tx).get(findHead, { tenant })
    return row === undefined ? { size: 0, peaks: Buffer.alloc(0) } : { size: row.size, peaks: Buffer.from(row.peaks) }
  },
  async entries(tx, tenant, fromSeq, limit) {
    const rows = await sessionOf(tx).all(listEntries, { tenant, from_seq: fromSeq, limit })
    return rows.map(
      (row): LogEntry => ({
        seq: row.seq,
        record: row.record,
        nodes: row.nodes,
        taskNumber: row.task_number,
        recordHash: row.record_hash,
      }),
    )
  },
  async rawEntries(tx, tenant, fromSeq, limit) {
    return await sessionOf(tx).all(listRawEntries, { tenant, from_seq: fromSeq, limit })
  },
  async nodes(tx, tenant, seqs) {
    const distinct = [...new Set(seqs)]
    if (distinct.length === 0) return new Map()
    const args: Record<string, string | number> = { tenant }
    // Padded with the last one to a power of two, so that proofs of any size share a few statements.
    const count = 2 ** Math.ceil(Math.log2(distinct.length))
    for (let index = 0; index < count; index++) args[`seq${index}`] = distinct[Math.min(index, distinct.length - 1)]!
    const rows = await sessionOf(tx).all(nodesFamily(String(count)), args)
    return new Map(rows.map((row) => [row.seq, row.nodes]))
  },
  async trailRecords(tx, tenant, taskNumber, range) {
    const session = sessionOf(tx)
    const rows = await session.all(session.dialect === 'sqlite' ? listTrailInSqlite : listTrail, {
      tenant,
      number: taskNumber,
      from_seq: range.fromSeq,
      to_seq: range.toSeq,
    })
    return rows.map((row) => ({ seq: row.seq, hash: row.record_hash ?? '', atMs: row.at }))
  },
  async tenants(tx) {
    return (await sessionOf(tx).all(listTenants, {})).map((row) => tenantId(row.tenant))
  },
}
