import { chmodSync, mkdirSync } from 'node:fs'
import { dirname } from 'node:path'
import { AppError } from '../../contract/app-error.ts'
import type { Database } from '../../contract/database.ts'
import type { ReadUnit } from '../../contract/unit.ts'
import type { Clock } from '../../kernel/clock.ts'
import { fault } from '../../kernel/fault.ts'
import type { Logger } from '../../kernel/logger.ts'
import { createGroupCommit, type WriteConnection } from '../sql/group-commit.ts'
import { migrationSql, migrations } from '../sql/migrations.ts'
import { loadKysely } from '../sql/statements.ts'
import { readUnit } from '../sql/units.ts'
import { openSqliteConnection, type SqliteConnection } from './connection.ts'

/** The embedded store: one writing connection, one for reads, and one more for each snapshot under way. */
export async function openSqliteDatabase(deps: {
  path: string
  clock: Clock
  logger: Logger
  /** Stops migrating at this version; only tests of migrations give it. */
  targetVersion?: number
}): Promise<Database> {
  await loadKysely()
  mkdirSync(dirname(deps.path), { recursive: true, mode: 0o700 })
  const writer = openSqliteConnection(deps.path, { readOnly: false })
  chmodSync(deps.path, 0o600)
  const schemaVersion = migrateSqlite(writer, deps.targetVersion ?? migrations.length)
  const reader = openSqliteConnection(deps.path, { readOnly: true })
  const connection = writeConnection(writer)
  const commits = createGroupCommit({
    connect: () => connection,
    discard: () => {},
    clock: deps.clock,
    logger: deps.logger,
  })
  const spares: SqliteConnection[] = []
  return {
    kind: 'sqlite',
    location: deps.path,
    read: readUnit(reader),
    write: commits.write,
    writeSoon: commits.writeSoon,
    flush: commits.flush,
    problem: commits.problem,
    schemaVersion,
    async snapshot<T>(work: (unit: ReadUnit) => Promise<T>): Promise<T> {
      const own = spares.pop() ?? openSqliteConnection(deps.path, { readOnly: true })
      own.execute('BEGIN')
      try {
        return await work(readUnit(own))
      } finally {
        own.execute('COMMIT')
        if (spares.length < SPARE_CONNECTIONS_MAX) spares.push(own)
        else own.close()
      }
    },
    async close() {
      await commits.flush()
      for (const spare of spares) spare.close()
      reader.close()
      writer.close()
    },
  }
}

/** Reads one instant of a database that another process may be writing. */
export async function readSqliteSnapshot<T>(path: string, work: (unit: ReadUnit) => Promise<T>): Promise<T> {
  await loadKysely()
  const connection = openSqliteConnection(path, { readOnly: true })
  try {
    connection.execute('BEGIN')
    return await work(readUnit(connection))
  } finally {
    connection.close()
  }
}

const SPARE_CONNECTIONS_MAX = 4

function writeConnection(connection: SqliteConnection): WriteConnection {
  const prepared = (sql: string) => {
    const statement = connection.database.prepare(sql)
    return () => {
      statement.run()
    }
  }
  return {
    ...connection,
    run: (statement, args) => {
      fault('store.write')
      return connection.run(statement, args)
    },
    begin: prepared('BEGIN IMMEDIATE'),
    commit: prepared('COMMIT'),
    rollback: () => {
      if (connection.database.isTransaction) connection.execute('ROLLBACK')
    },
    savepoint: prepared('SAVEPOINT job'),
    release: prepared('RELEASE job'),
    rollbackToSavepoint: prepared('ROLLBACK TO job'),
  }
}

/** Answers the version reached. A database from a newer program is refused before anything is touched. */
function migrateSqlite(connection: SqliteConnection, target: number): number {
  const row = connection.database.prepare('PRAGMA user_version').get() as { user_version: number }
  const current = row.user_version
  if (current > migrations.length) {
    throw new AppError(
      'ERR_INIT_FAILED',
      `The database has schema version ${current}, but this program knows versions up to ${migrations.length}. Use a newer Castellan.`,
      { schema_version: current, known_version: migrations.length },
    )
  }
  for (let version = current; version < target; version++) {
    connection.execute('BEGIN EXCLUSIVE')
    try {
      for (const sql of migrationSql(migrations[version]!, 'sqlite')) connection.execute(sql)
      fault('store.migrate')
      connection.execute(`PRAGMA user_version = ${version + 1}`)
      connection.execute('COMMIT')
    } catch (error) {
      connection.execute('ROLLBACK')
      throw error
    }
  }
  return Math.max(current, target)
}
