import { existsSync, statSync } from 'node:fs'
import { resolve } from 'node:path'
import { AppError } from '../../contract/app-error.ts'
import { inWords, isDamage, systemFault } from '../../contract/system-fault.ts'
import type { ReadTx } from '../../contract/tx.ts'
import { migrations, requireKnownVersion } from '../sql/migrations.ts'
import { readTx } from '../sql/tx.ts'
import { openSqliteConnection, type SqliteConnection } from './connection.ts'

/** Reads one instant of a database that another process may be writing. A damaged one does not verify. */
export async function readSqliteSnapshot<T>(path: string, work: (tx: ReadTx) => Promise<T>): Promise<T> {
  let connection: SqliteConnection | undefined
  try {
    connection = openToRead(path)
    requireVersion(connection, path)
    connection.execute('BEGIN')
    return await work(readTx(connection))
  } catch (error) {
    const subject = `The database ${path}`
    if (!isDamage(error)) throw inWords(error, subject)
    const { message } = systemFault(error, subject)!
    throw new AppError('ERR_LOG_INVALID', message, { field: 'data_dir' }, { cause: error })
  } finally {
    connection?.close()
  }
}

/** If nothing may be written, not even the index of the write-ahead log, a complete database is read as it is. */
function openToRead(path: string): SqliteConnection {
  try {
    return openSqliteConnection(path, { readOnly: true })
  } catch (error) {
    const unwritten = `${path}-wal`
    const isWhole = !existsSync(unwritten) || statSync(unwritten).size === 0
    if (!existsSync(path) || !statSync(path).isFile() || isDamage(error) || !isWhole) throw error
    const encoded = resolve(path).split('/').map(encodeURIComponent).join('/')
    return openSqliteConnection(`file://${encoded}?immutable=1`, { readOnly: true })
  }
}

function requireVersion(connection: SqliteConnection, path: string): void {
  const { user_version: version } = connection.database.prepare('PRAGMA user_version').get() as { user_version: number }
  requireKnownVersion(version)
  if (version === migrations.length) return
  throw new AppError(
    'ERR_INIT_FAILED',
    `The database ${path} is of an older program (schema version ${version}; this one has ${migrations.length}). Start the server on it once, then check it again.`,
    { schema_version: version, known_version: migrations.length },
  )
}
