import type { ReadTx, WriteTx } from '../../contract/tx.ts'
import type { Task } from '../../domains/tasks/ports.ts'
import { rawStatement, type Session, statement } from './statements.ts'
import { deferOnce, deferWork, runDeferred } from './tenant-head.ts'
import { headOf, sessionOf, writeHeadOf } from './tx.ts'

/**
 * SQLite's indexes of the words and labels of tasks. Indexing a task at once would double the pages that its commit writes, so it
 * is done in bulk.
 *
 * 1. Rows up to `task_index.indexed_to` are in the indexes; the rows after it, the tail, are not.
 * 2. The commit that makes the tail longer than its limit indexes it, in the same transaction.
 * 3. A changed row of the tail needs no update; the change of an indexed row is indexed by its own commit.
 * 4. A search reads the indexes and the tail: every committed task is found from its commit on. PostgreSQL has its own index of
 *    the words.
 */
const TAIL_ROWS_MAX = 256

const findTail = statement<object>('task-index.findTail')((db, _arg, { sql }) =>
  rawStatement<{ indexed_to: number; newest: number | null }>(
    sql`select indexed_to, (select max(row_id) from tasks) as newest from task_index`,
    db,
  ),
)
const enterWords = statement<object>('task-index.enterWords')((db, _arg, { sql }) =>
  rawStatement(
    sql`insert into tasks_search (rowid, title, description)
      select row_id, title, description from tasks where row_id > (select indexed_to from task_index)`,
    db,
  ),
)
const enterLabels = statement<object>('task-index.enterLabels')((db, _arg, { sql }) =>
  rawStatement(
    sql`insert or ignore into task_labels (tenant, task_number, label)
      select tenant, number, value from tasks, json_each(labels)
      where row_id > (select indexed_to from task_index) and labels <> '[]'`,
    db,
  ),
)
const moveMark = statement<{ newest: number }>('task-index.moveMark')((db, arg, { sql }) =>
  rawStatement(sql`update task_index set indexed_to = ${arg('newest')}`, db),
)

/** Call this after a task was inserted. */
export const noteInsertedTask = (tx: WriteTx, tenant: string): void => deferOnce(headOf(tx, tenant), enterTail)

async function enterTail(session: Session): Promise<void> {
  const { indexed_to, newest } = (await session.get(findTail, {}))!
  if (newest === null || newest - indexed_to < TAIL_ROWS_MAX) return
  await session.run(enterWords, {})
  await session.run(enterLabels, {})
  await session.run(moveMark, { newest })
}

const findRow = statement<{ tenant: string; number: number }>('task-index.findRow')((db, arg, { sql }) =>
  rawStatement<{ row_id: number; is_indexed: number }>(
    sql`select row_id, row_id <= (select indexed_to from task_index) as is_indexed
      from tasks where tenant = ${arg('tenant')} and number = ${arg('number')}`,
    db,
  ),
)
type Words = { row_id: number; title: string; description: string }
const addWords = statement<Words>('task-index.addWords')((db, arg, { sql }) =>
  rawStatement(
    sql`insert into tasks_search (rowid, title, description)
      values (${arg('row_id')}, ${arg('title')}, ${arg('description')})`,
    db,
  ),
)
const removeWords = statement<Words>('task-index.removeWords')((db, arg, { sql }) =>
  rawStatement(
    sql`insert into tasks_search (tasks_search, rowid, title, description)
      values ('delete', ${arg('row_id')}, ${arg('title')}, ${arg('description')})`,
    db,
  ),
)

/** Returns whether the labels of the task are in their table, and so must be changed there. */
export async function noteChangedTask(tx: WriteTx, tenant: string, before: Task, after: Task): Promise<boolean> {
  const { row_id, is_indexed } = (await sessionOf(tx).get(findRow, { tenant, number: after.number }))!
  if (is_indexed === 0) return false
  if (before.description !== after.description) {
    deferWork(headOf(tx, tenant), async (session) => {
      await session.run(removeWords, { row_id, title: before.title, description: before.description })
      await session.run(addWords, { row_id, title: after.title, description: after.description })
    })
  }
  return true
}

const makeTailTable = statement<object>('task-index.makeTailTable')((db, _arg, { sql }) =>
  rawStatement(
    sql`create virtual table if not exists temp.tail_search using fts5
      (title, description, content='', columnsize=0, tokenize='porter unicode61 remove_diacritics 2')`,
    db,
  ),
)
const emptyTailTable = statement<object>('task-index.emptyTailTable')((db, _arg, { sql }) =>
  rawStatement(sql`insert into temp.tail_search (tail_search) values ('delete-all')`, db),
)
const fillTailTable = statement<object>('task-index.fillTailTable')((db, _arg, { sql }) =>
  rawStatement(
    sql`insert into temp.tail_search (rowid, title, description)
      select row_id, title, description from tasks where row_id > (select indexed_to from task_index)`,
    db,
  ),
)
const dataVersion = statement<object>('task-index.dataVersion')((db, _arg, { sql }) =>
  rawStatement<{ data_version: number }>(sql`pragma data_version`, db),
)
const filledAt = new WeakMap<Session, number>()

/** Call this before a search on a SQLite connection: fills its small index of the tail. */
export async function prepareSearch(tx: ReadTx): Promise<void> {
  const session = sessionOf(tx)
  const head = writeHeadOf(tx)
  if (head !== undefined) {
    await runDeferred(session, head)
    fillTail(session)
    return
  }
  // Changes only when another connection commits, which for a reader is every change.
  const version = now(session.get(dataVersion, {}))!.data_version
  if (filledAt.get(session) === version) return
  fillTail(session)
  filledAt.set(session, version)
}

/** Synchronous, so that no other search on the connection sees it half filled. */
function fillTail(session: Session): void {
  now(session.run(makeTailTable, {}))
  now(session.run(emptyTailTable, {}))
  now(session.run(fillTailTable, {}))
}

function now<T>(answer: T | Promise<T>): T {
  if (answer instanceof Promise) throw new Error('SQLite answers at once')
  return answer
}
