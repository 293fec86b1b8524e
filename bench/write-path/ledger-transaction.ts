import { hash } from 'node:crypto'
import { DatabaseSync } from 'node:sqlite'

/** One write as a ledger makes it: the head of the log, the row itself, its log entry, and the head moved on. */
export type LedgerJob = Readonly<{ title: string; description: string }>
export type LedgerStore = Readonly<{
  /** All jobs in one commit; one answer per job, after it. */
  commit(jobs: readonly LedgerJob[]): { id: number; entry: string }[]
  close(): void
}>

const checkpointEveryCommits = 128

export const openLedgerStore = (file: string): LedgerStore => {
  const database = new DatabaseSync(file)
  database.exec(`PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0;
    CREATE TABLE IF NOT EXISTS head (id INTEGER PRIMARY KEY, size INTEGER NOT NULL, root TEXT NOT NULL);
    CREATE TABLE IF NOT EXISTS tasks (id INTEGER PRIMARY KEY, title TEXT NOT NULL, description TEXT NOT NULL, created_at TEXT NOT NULL);
    CREATE INDEX IF NOT EXISTS tasks_created ON tasks (created_at);
    CREATE TABLE IF NOT EXISTS log (seq INTEGER PRIMARY KEY, entry TEXT NOT NULL, leaf TEXT NOT NULL);
    INSERT OR IGNORE INTO head VALUES (1, 0, '');`)
  const begin = database.prepare('BEGIN IMMEDIATE')
  const end = database.prepare('COMMIT')
  const readHead = database.prepare('SELECT size, root FROM head WHERE id = 1')
  const insertTask = database.prepare('INSERT INTO tasks (title, description, created_at) VALUES (?, ?, ?)')
  const insertEntry = database.prepare('INSERT INTO log (seq, entry, leaf) VALUES (?, ?, ?)')
  const moveHead = database.prepare('UPDATE head SET size = ?, root = ? WHERE id = 1')
  let commits = 0

  const write = (job: LedgerJob): { id: number; entry: string } => {
    const head = readHead.get() as { size: number; root: string }
    const now = new Date().toISOString()
    const id = Number(insertTask.run(job.title, job.description, now).lastInsertRowid)
    const entry = JSON.stringify({ at: now, id, title: job.title, tool: 'task_create' })
    const leaf = hash('sha256', head.root + entry, 'hex')
    insertEntry.run(head.size, entry, leaf)
    moveHead.run(head.size + 1, leaf)
    return { id, entry: leaf }
  }
  return {
    commit(jobs) {
      begin.run()
      const answers = jobs.map(write)
      end.run()
      commits += 1
      if (commits % checkpointEveryCommits === 0) database.exec('PRAGMA wal_checkpoint(PASSIVE)')
      return answers
    },
    close: () => database.close(),
  }
}
