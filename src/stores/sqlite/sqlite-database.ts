import { chmodSync, mkdirSync } from 'node:fs'
import { dirname } from 'node:path'
import { AppError } from '../../contract/app-error.ts'
import type { Database } from '../../contract/database.ts'
import { inWords } from '../../contract/system-fault.ts'
import type { ReadTx } from '../../contract/tx.ts'
import type { Clock } from '../../kernel/clock.ts'
import { fault } from '../../kernel/fault.ts'
import type { Logger } from '../../kernel/logger.ts'
import { outcomeUnknown, type WriteConnection } from '../sql/commit-batch.ts'
import { failingSession } from '../sql/failing-session.ts'
import { createGroupCommit } from '../sql/group-commit.ts'
import { migrationSql, migrations, requireKnownVersion } from '../sql/migrations.ts'
import { readTx } from '../sql/tx.ts'
import { openSqliteConnection, type SqliteConnection, syncByCommit, useWriteAheadLog } from './connection.ts'
import { failureRules } from './failure-rules.ts'
import { createWalSync, type WalSync } from './wal-sync.ts'

/** The embedded store: one connection for writes, one for reads, and one more for each open snapshot. */
export async function openSqliteDatabase(deps: {
  path: string
  clock: Clock
  logger: Logger
  /** Stops migrating at this version; only for tests of migrations. */
  targetVersion?: number
}): Promise<Database> {
  const { writer, schemaVersion } = openWriter(deps.path, deps.targetVersion ?? migrations.length)
  const reader = openSqliteConnection(deps.path, { readOnly: true })
  const walSync = createWalSync({ databasePath: deps.path, logger: deps.logger })
  const connection = writeConnection(writer, walSync)
  const commits = createGroupCommit({
    connect: () => connection,
    discard: () => {},
    clock: deps.clock,
    logger: deps.logger,
  })
  const spares: SqliteConnection[] = []
  let closed = false
  return {
    kind: 'sqlite',
    location: deps.path,
    read: readTx(failingSession(reader, failureRules)),
    write: commits.write,
    writeSoon: commits.writeSoon,
    flush: commits.flush,
    synced: walSync.synced,
    problem: () => commits.problem() ?? walSync.problem(),
    schemaVersion,
    dataVersion: connection.dataVersion,
    async snapshot<T>(work: (tx: ReadTx) => Promise<T>): Promise<T> {
      const own = spares.pop() ?? openSqliteConnection(deps.path, { readOnly: true })
      own.execute('BEGIN')
      try {
        return await work(readTx(failingSession(own, failureRules)))
      } finally {
        own.execute('COMMIT')
        if (!closed && spares.length < SPARE_CONNECTIONS_MAX) spares.push(own)
        else own.close()
      }
    },
    async close() {
      if (closed) return
      closed = true
      await commits.close()
      await walSync.close()
      for (const spare of spares.splice(0)) spare.close()
      reader.close()
      writer.close()
    },
  }
}

const SPARE_CONNECTIONS_MAX = 4

/** A database that cannot be used, or belongs to a newer program, is left unchanged. */
function openWriter(path: string, target: number): { writer: SqliteConnection; schemaVersion: number } {
  let writer: SqliteConnection | undefined
  try {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
    writer = openSqliteConnection(path, { readOnly: false })
    requireKnownVersion(readVersion(writer))
    useWriteAheadLog(writer)
    chmodSync(path, 0o600)
    return { writer, schemaVersion: migrateSqlite(writer, target) }
  } catch (error) {
    writer?.close()
    throw unusable(path, error)
  }
}

function unusable(path: string, error: unknown): unknown {
  const subject = `The database ${path}`
  const known = inWords(error, subject)
  if (known instanceof AppError) return known
  const reason = error instanceof Error ? error.message : String(error)
  const message = `${subject} cannot be used: ${reason}. Check the data directory and its free space.`
  return new AppError('ERR_INIT_FAILED', message, { field: 'data_dir' }, { cause: error })
}

function writeConnection(
  connection: SqliteConnection,
  walSync: Pick<WalSync, 'start'>,
): WriteConnection & Pick<Database, 'dataVersion'> {
  const prepared = (sql: string) => {
    const statement = connection.database.prepare(sql)
    return () => {
      statement.run()
    }
  }
  const begin = prepared('BEGIN IMMEDIATE')
  const commit = prepared('COMMIT')
  const traces = { hasWritten: false, hasFailed: false, hasChangedData: false }
  let dataVersion = 0
  let isSyncedByCommit = true
  return {
    ...failingSession(connection, { ...failureRules, traces }),
    traces,
    dataVersion: () => dataVersion,
    begin: (isAwaited) => {
      if (isAwaited !== isSyncedByCommit) syncByCommit(connection, isAwaited)
      isSyncedByCommit = isAwaited
      begin()
    },
    commit: () => {
      try {
        commit()
        if (!isSyncedByCommit) walSync.start()
      } catch (cause) {
        // The log on disk may hold the whole transaction: until it is overwritten, a crash could bring it back.
        throw outcomeUnknown(cause)
      } finally {
        if (traces.hasChangedData) dataVersion++
        traces.hasChangedData = false
      }
    },
    rollback: () => {
      if (connection.database.isTransaction) connection.execute('ROLLBACK')
    },
    savepoint: prepared('SAVEPOINT job'),
    release: prepared('RELEASE job'),
    rollbackToSavepoint: prepared('ROLLBACK TO job'),
  }
}

/**
 * Returns the version reached. All that is missing is one transaction: a new store waits for the disk once, and an upgrade that fails
 * leaves the store as it was. The version is read again under the lock: another process may have been first.
 */
function migrateSqlite(connection: SqliteConnection, target: number): number {
  if (readVersion(connection) >= target) return readVersion(connection)
  connection.execute('BEGIN EXCLUSIVE')
  try {
    const version = readVersion(connection)
    for (const migration of migrations.slice(version, target)) {
      for (const sql of migrationSql(migration, 'sqlite')) connection.execute(sql)
      fault('store.migrate')
    }
    if (version < target) connection.execute(`PRAGMA user_version = ${target}`)
    connection.execute('COMMIT')
  } catch (error) {
    if (connection.database.isTransaction) connection.execute('ROLLBACK')
    throw error
  }
  return readVersion(connection)
}

function readVersion(connection: SqliteConnection): number {
  return (connection.database.prepare('PRAGMA user_version').get() as { user_version: number }).user_version
}
