import { type CallEntry, createReadEntries, type ReadEntries } from '../../audit/call-entry.ts'
import type { LogStore } from '../../audit/ports.ts'
import type { Database } from '../../contract/database.ts'
import { limits } from '../../contract/limits.ts'
import type { TenantId } from '../../contract/principal.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'

/**
 * The records of calls that only read, for which nobody waits. Consecutive records of one tenant are gathered and written
 * together, because one entry for each would cost a small call as much as all the rest.
 *
 * 1. A batch takes its position in the order of writes when its first record comes. It ends when the tenant submits another
 *    entry, when it is full, or when it is about to be written. So the log keeps the order of the calls.
 * 2. It is written as soon as it is full, and otherwise when `writeSoon` decides.
 * 3. If too many records are pending, the next caller waits.
 */
export type ReadRecords = Readonly<{
  add(entry: CallEntry): void | Promise<void>
  /** Call this before submitting any other entry of the tenant: later reads follow that entry. */
  endGathering(tenant: TenantId): void
}>

/**
 * Whether an entry that was submitted to a commit is in the log at its position. An entry of several calls is identified by its
 * first.
 */
export async function isLogged(
  log: LogStore,
  tx: WriteTx,
  tenant: TenantId,
  callId: string,
  seq: number,
): Promise<boolean> {
  const found = await log.entries(tx as unknown as ReadTx, tenant, seq, 1)
  if (found.length === 0) return false
  const record = JSON.parse(found[0]!.record) as { call_id?: string; calls?: readonly { call_id?: string }[] }
  return (record.call_id ?? record.calls?.[0]?.call_id) === callId
}

type Gathered = { readonly entries: ReadEntries; readonly firstCallId: string; count: number }

export function createReadRecords(deps: { database: Database; log: LogStore }): ReadRecords {
  const { database, log } = deps
  const open = new Map<TenantId, Gathered>()
  let pendingCount = 0

  /** A retry after a failed commit first checks whether the commit happened. */
  function writing(tenant: TenantId, { entries, firstCallId }: Gathered): (tx: WriteTx) => Promise<void> {
    let seq: number | undefined
    return async (tx) => {
      if (seq !== undefined && (await isLogged(log, tx, tenant, firstCallId, seq))) return
      seq = log.nextSeq(tx, tenant)
      for (const entry of entries.toLogEntries()) await log.appendEntry(tx, tenant, entry)
    }
  }

  function gather(tenant: TenantId, entry: CallEntry): void | Promise<void> {
    const gathered: Gathered = { entries: createReadEntries(), firstCallId: entry.callId, count: 1 }
    gathered.entries.add(entry)
    pendingCount++
    const waiting = database.writeSoon(tenant, writing(tenant, gathered), () => {
      pendingCount -= gathered.count
      if (open.get(tenant) === gathered) open.delete(tenant)
    })
    if (waiting === undefined) open.set(tenant, gathered)
    return waiting
  }

  return {
    add(entry) {
      const { tenant } = entry.principal
      const gathered = open.get(tenant)
      if (gathered === undefined) return gather(tenant, entry)
      gathered.entries.add(entry)
      pendingCount++
      const isFull = ++gathered.count >= limits.readRecordsGatheredMax
      if (isFull) open.delete(tenant)
      if (!isFull && pendingCount < limits.readRecordsPendingMax) return undefined
      const written = database.flush()
      return pendingCount < limits.readRecordsPendingMax ? undefined : written
    },
    endGathering(tenant) {
      if (open.size > 0) open.delete(tenant)
    },
  }
}
