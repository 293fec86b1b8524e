import type { DatabaseSync } from 'node:sqlite'
import { appendLeaf, emptyHead, leafHash, type TreeHead } from '../../src/audit/tree.ts'
import { canonicalJson } from '../../src/kernel/canonical-json.ts'
import { openTestApp, type TestApp } from './app.ts'
import { move, newTask, think } from './ledger.ts'

/**
 * A log of which every entry is known, and what an attacker who can write to the database might do to it.
 *
 * | seq | entry | record of T-0001 |
 * |---|---|---|
 * | 0, 1 | T-0001 and T-0002 are created | 1, – |
 * | 2, 3 | thought of T-0001, thought of T-0002 | 2, – |
 * | 4 | T-0001 updated | 3 |
 * | 5 | thought of T-0001 | 4 |
 * | 6 | T-0001 updated | 5 |
 * | 7 | thought of T-0001 | 6 |
 * | 8 | a call that only reads | – |
 * | 9 | thought of T-0001 | 7 |
 * | 10 | T-0001 updated | 8 |
 * | 11, 12 | thoughts of T-0001 | 9, 10 |
 */
export const LOG_SIZE = 13
export const RECORDS = 10

/** The log as above, under a checkpoint of its whole size, in a program that signs no other on its own. */
export async function knownLog(): Promise<TestApp> {
  const app = await openTestApp({ config: { 'audit.checkpoint_interval_ms': 3_600_000 } })
  const task = await newTask(app)
  await newTask(app, { title: 'another' })
  await think(app, task, 'first')
  await think(app, 'T-0002', 'elsewhere')
  await move(app, task, 'todo')
  await think(app, task, 'second')
  await app.ask('task_update', { task_id: task, progress: 10 })
  await think(app, task, 'third')
  await app.ask('task_get', { task_id: task })
  await think(app, task, 'fourth')
  await app.ask('task_update', { task_id: task, progress: 20 })
  await think(app, task, 'fifth', { metadata: { subject: 'task:2', body: { task_id: 'T-0002' } } })
  await think(app, task, 'sixth: Größe, 数, 😀')
  return await app.restart()
}

type Row = { seq: number; record: string; nodes: Uint8Array; task_number: number | null; record_hash: string | null }

export const rowsOf = (db: DatabaseSync): Row[] =>
  db
    .prepare("SELECT seq, record, nodes, task_number, record_hash FROM log_entries WHERE tenant = 'local' ORDER BY seq")
    .all() as Row[]

export function setEntry(db: DatabaseSync, seq: number, set: Partial<Row>): void {
  const columns = Object.keys(set)
  const { changes } = db
    .prepare(
      `UPDATE log_entries SET ${columns.map((name) => `${name} = ?`).join(', ')} WHERE tenant = 'local' AND seq = ?`,
    )
    .run(...(Object.values(set) as (string | number | null | Uint8Array)[]), seq)
  if (changes !== 1) throw new Error(`there is no entry ${seq}`)
}

/** Another text for an entry; with `leaf`, the stored leaf is made to fit. */
export function rewrite(db: DatabaseSync, seq: number, change: (text: string) => string, leaf = false): void {
  const { record, nodes } = rowsOf(db).find((row) => row.seq === seq)!
  const altered = change(record)
  if (altered === record) throw new Error('nothing was altered')
  const fitting = Buffer.from(nodes)
  leafHash(altered).copy(fitting)
  setEntry(db, seq, { record: altered, ...(leaf ? { nodes: fitting } : {}) })
}

export const removeEntries = (db: DatabaseSync, where: string): void =>
  db.exec(`DELETE FROM log_entries WHERE tenant = 'local' AND ${where}`)

/** The id of an entry: the log of `local` is the first that the database has. */
const idOf = (seq: number): number => 2 ** 34 + seq

/** Exchanges the places of two entries. */
export function exchangeEntries(db: DatabaseSync, first: number, second: number): void {
  moveEntry(db, first, -1)
  moveEntry(db, second, first)
  moveEntry(db, -1, second)
}

function moveEntry(db: DatabaseSync, from: number, to: number): void {
  db.prepare('UPDATE log_entries SET seq = ?, row_id = ? WHERE row_id = ?').run(to, idOf(to), idOf(from))
}

/** A record that a program might have written, that T-0001 was updated. */
export function forgedUpdate(hashOf: (text: string) => string): Row {
  const body = { changes: { progress: 99 }, previous_status: 'todo', task_id: 'T-0001', updated_by: 'mallory' }
  const recordHash = hashOf(canonicalJson(body))
  const effects = [{ kind: 'task_updated', subject: 'task:1', hash: recordHash, body }]
  const record = canonicalJson({ v: 1, kind: 'call', call_id: 'c_forged', tenant: 'local', at: '2026-01-01', effects })
  return { seq: -1, record, nodes: leafHash(record), task_number: 1, record_hash: recordHash }
}

/** Puts an entry at a place and moves all later ones up by one. */
export function insertEntry(db: DatabaseSync, seq: number, row: Row): void {
  for (const later of rowsOf(db).reverse()) if (later.seq >= seq) moveEntry(db, later.seq, later.seq + 1)
  db.prepare('INSERT INTO log_entries VALUES (?, ?, ?, ?, ?, ?, ?, ?)').run(
    ...([idOf(seq), 'local', seq, 0, row.record, row.nodes, row.task_number, row.record_hash] as const),
  )
}

/** Makes every stored node and the head agree with the records as they now are. */
export function rebuildTree(db: DatabaseSync): void {
  let head: TreeHead = emptyHead
  for (const { seq, record } of rowsOf(db)) {
    const appended = appendLeaf(head, leafHash(record))
    setEntry(db, seq, { nodes: appended.nodes })
    head = appended.head
  }
  db.prepare("UPDATE log_heads SET size = ?, peaks = ? WHERE tenant = 'local'").run(head.size, head.peaks)
}

/** Takes the newest entries away and leaves everything else as it would have been without them. */
export function cutTail(db: DatabaseSync, size: number): void {
  removeEntries(db, `seq >= ${size}`)
  db.exec(`DELETE FROM thoughts WHERE tenant = 'local' AND log_seq >= ${size}`)
  db.exec("UPDATE log_heads SET thought_count = (SELECT count(*) FROM thoughts) WHERE tenant = 'local'")
  rebuildTree(db)
}
