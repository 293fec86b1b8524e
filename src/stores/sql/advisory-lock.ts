import type { WriteTx } from '../../contract/tx.ts'
import { rawStatement, statement } from './statements.ts'
import { sessionOf } from './tx.ts'

/** Keeps our keys apart from those of other programs on the same database. */
const SEED = 7433

const takeLock = statement<{ key: string }>('advisory-lock.take')((db, arg, { dialect, sql }) =>
  rawStatement(
    dialect === 'postgres'
      ? sql`SELECT pg_advisory_xact_lock(hashtextextended(${arg('key')}, ${sql.lit(SEED)}))`
      : sql`SELECT ${arg('key')}`,
    db,
  ),
)

/** Held until the transaction ends. SQLite has one writer at a time, so there is nothing to lock. */
export async function lockUntilCommit(tx: WriteTx, key: string): Promise<void> {
  await sessionOf(tx).get(takeLock, { key })
}
