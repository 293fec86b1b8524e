import type { ReadUnit } from '../../contract/unit.ts'
import { readUnit } from '../sql/units.ts'
import { openSqliteConnection } from './connection.ts'

/** Reads one instant of a database that another process may be writing. */
export async function readSqliteSnapshot<T>(path: string, work: (unit: ReadUnit) => Promise<T>): Promise<T> {
  const connection = openSqliteConnection(path, { readOnly: true })
  try {
    connection.execute('BEGIN')
    return await work(readUnit(connection))
  } finally {
    connection.close()
  }
}
