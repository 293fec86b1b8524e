import { DatabaseSync, type StatementSync } from 'node:sqlite'
import { bindArguments, type Prepared, type Session, type Statement } from '../sql/statements.ts'

/** One node:sqlite connection as a session: statements are prepared once and answer synchronously. */
export type SqliteConnection = Session & Readonly<{ execute(sql: string): void; close(): void; database: DatabaseSync }>

const BUSY_TIMEOUT_MS = 5_000

export function openSqliteConnection(path: string, options: { readOnly: boolean }): SqliteConnection {
  const database = new DatabaseSync(path, { readOnly: options.readOnly, timeout: BUSY_TIMEOUT_MS })
  database.exec('PRAGMA foreign_keys = ON; PRAGMA temp_store = MEMORY; PRAGMA cache_size = -16384')
  const compiled: Compiled[] = []
  const compile = ({ sql, index }: Prepared): Compiled => {
    const own = database.prepare(sql)
    own.setReturnArrays(true)
    const fresh = { own, columns: own.columns().map(({ name }) => name) }
    compiled[index] = fresh
    return fresh
  }
  return {
    dialect: 'sqlite',
    database,
    all<Args, Row>(statement: Statement<Args, Row>, args: Args): Row[] {
      const prepared = statement.prepared('sqlite')
      const { own, columns } = compiled[prepared.index] ?? compile(prepared)
      const rows = own.all(...bindArguments(prepared, args)) as unknown as Cells[]
      return rows.map((cells) => toRow<Row>(columns, cells))
    },
    get<Args, Row>(statement: Statement<Args, Row>, args: Args): Row | undefined {
      const prepared = statement.prepared('sqlite')
      const { own, columns } = compiled[prepared.index] ?? compile(prepared)
      const cells = own.get(...bindArguments(prepared, args)) as unknown as Cells | undefined
      return cells === undefined ? undefined : toRow<Row>(columns, cells)
    },
    run<Args, Row>(statement: Statement<Args, Row>, args: Args): number {
      const prepared = statement.prepared('sqlite')
      const { own } = compiled[prepared.index] ?? compile(prepared)
      return own.run(...bindArguments(prepared, args)).changes as number
    },
    execute: (sql) => database.exec(sql),
    close: () => database.close(),
  }
}

/** Rows from node:sqlite have no prototype and are hash tables: large, and slow to access. */
type Compiled = Readonly<{ own: StatementSync; columns: readonly string[] }>
type Cells = readonly unknown[]

function toRow<Row>(columns: readonly string[], cells: Cells): Row {
  const row: Record<string, unknown> = {}
  for (let index = 0; index < columns.length; index++) row[columns[index]!] = cells[index]
  return row as Row
}

const WAL_PAGES = 1000

/**
 * FULL makes every commit wait for the disk: what is acknowledged survives a power cut. The log is recycled early, because
 * overwriting an existing file is cheaper to sync than growing one.
 */
export function useWriteAheadLog(connection: SqliteConnection): void {
  connection.execute(`PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = ${WAL_PAGES}`)
}

/**
 * Not to be called inside a transaction. Without syncing, a commit is in the write-ahead log, but perhaps not on disk. The next
 * sync of the log, by a commit or otherwise, writes it there. A power cut before that loses the whole commit.
 */
export function syncByCommit(connection: SqliteConnection, isSynced: boolean): void {
  connection.execute(`PRAGMA synchronous = ${isSynced ? 'FULL' : 'NORMAL'}`)
}
