import { DatabaseSync, type StatementSync } from 'node:sqlite'
import { bindArguments, type Prepared, type Session, type Statement } from '../sql/statements.ts'

/** One node:sqlite connection as a session: statements are prepared once and answer synchronously. */
export type SqliteConnection = Session & Readonly<{ execute(sql: string): void; close(): void; database: DatabaseSync }>

const BUSY_TIMEOUT_MS = 5_000

export function openSqliteConnection(path: string, options: { readOnly: boolean }): SqliteConnection {
  const database = new DatabaseSync(path, { readOnly: options.readOnly, timeout: BUSY_TIMEOUT_MS })
  database.exec('PRAGMA foreign_keys = ON; PRAGMA temp_store = MEMORY; PRAGMA cache_size = -16384')
  const compiled: StatementSync[] = []
  const compile = (prepared: Prepared): StatementSync => {
    const fresh = database.prepare(prepared.sql)
    compiled[prepared.index] = fresh
    return fresh
  }
  return {
    dialect: 'sqlite',
    database,
    all<Args, Row>(statement: Statement<Args, Row>, args: Args): Row[] {
      const prepared = statement.prepared('sqlite')
      const own = compiled[prepared.index] ?? compile(prepared)
      return own.all(...bindArguments(prepared, args)) as Row[]
    },
    get<Args, Row>(statement: Statement<Args, Row>, args: Args): Row | undefined {
      const prepared = statement.prepared('sqlite')
      const own = compiled[prepared.index] ?? compile(prepared)
      return own.get(...bindArguments(prepared, args)) as Row | undefined
    },
    run<Args, Row>(statement: Statement<Args, Row>, args: Args): number {
      const prepared = statement.prepared('sqlite')
      const own = compiled[prepared.index] ?? compile(prepared)
      return own.run(...bindArguments(prepared, args)).changes as number
    },
    execute: (sql) => database.exec(sql),
    close: () => database.close(),
  }
}

const WAL_PAGES = 1000

/**
 * FULL makes every commit wait for the disk: what is acknowledged survives a power cut. The log is recycled early, because
 * overwriting an existing file is cheaper to sync than growing one.
 */
export function useWriteAheadLog(connection: SqliteConnection): void {
  connection.execute(`PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = ${WAL_PAGES}`)
}
