import { endRowIdSql, firstRowIdSql, numberByRowId } from './row-ids.ts'
import { rawStatement, type Session, statement } from './statements.ts'
import type { TenantHead } from './tenant-head.ts'

/**
 * SQLite's index of the log entries that are trail records, by task. Indexing each at once would be one more page for every
 * commit, so it is done in bulk.
 *
 * 1. Entries before `log_heads.trail_to` are in `trail_entries`; the entries from there on, the tail, are not.
 * 2. The commit that makes the tail longer than its limit indexes it, in the same transaction.
 * 3. A reader of trail records reads the index and the tail. PostgreSQL has its own index.
 */
const TAIL_ENTRIES_MAX = 256

const enterTail = statement<{ tenant: string; from_id: number }>('trail-index.enterTail')((db, arg, { sql }) =>
  rawStatement(
    sql`insert or ignore into trail_entries (tenant, task_number, seq)
      select tenant, task_number, seq from log_entries
      where row_id >= ${arg('from_id')} and row_id < ${endRowIdSql(sql, arg('tenant'))} and task_number is not null
      order by task_number, seq`,
    db,
  ),
)

/** Call this before the head is stored. */
export async function enterTrail(session: Session, { tenant, firstId, state }: TenantHead): Promise<void> {
  if (state.size - state.trailTo < TAIL_ENTRIES_MAX) return
  await session.run(enterTail, { tenant, from_id: firstId + state.trailTo })
  state.trailTo = state.size
}

type TrailArgs = { tenant: string; number: number; from_seq: number; to_seq: number }

export const listTrailInSqlite = statement<TrailArgs>('trail-index.listTrailInSqlite')((db, arg, { sql }) => {
  const firstId = firstRowIdSql(sql, arg('tenant'))
  return rawStatement<{ seq: number; record_hash: string | null; at: number }>(
    sql`select ${numberByRowId(sql, arg('tenant'))} as seq, record_hash, at from log_entries
      where row_id in (
        select ${firstId} + seq from trail_entries where tenant = ${arg('tenant')} and task_number = ${arg('number')}
        union all
        select row_id from log_entries
          where row_id >= ${firstId} + (select trail_to from log_heads where tenant = ${arg('tenant')})
          and row_id < ${endRowIdSql(sql, arg('tenant'))})
      and row_id >= ${firstId} + ${arg('from_seq')} and row_id < ${firstId} + ${arg('to_seq')}
      and tenant = ${arg('tenant')} and task_number = ${arg('number')}
      order by row_id`,
    db,
  )
})
