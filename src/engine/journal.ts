import type { LogStore } from '../audit/ports.ts'
import { toRunEntry } from '../audit/run-entry.ts'
import type { TenantId } from '../contract/principal.ts'
import type { ReadTx, WriteTx } from '../contract/tx.ts'
import type { Json } from '../kernel/canonical-json.ts'
import type { Run, RunEvent, RunStore, StoredEvent } from './ports.ts'

export type JournalDeps = Readonly<{ store: RunStore; log: LogStore }>
/** `iteration` is the run's if absent. */
export type NewRow = Readonly<{ type: string; key?: string | null; payload?: Json; iteration?: number | null }>
export type RunChange = Partial<
  Pick<
    Run,
    | 'status'
    | 'output'
    | 'error'
    | 'iteration'
    | 'state'
    | 'endedAtMs'
    | 'wakeAtMs'
    | 'waitingFor'
    | 'claim'
    | 'cancelRequested'
  >
>

/**
 * The only way to change a run: its row, the rows of its journal and the log entry are written together, in the transaction `tx`.
 * Returns the changed run.
 */
export async function appendToRun(
  { store, log }: JournalDeps,
  tx: WriteTx,
  run: Run,
  atMs: number,
  rows: readonly NewRow[],
  change: RunChange = {},
): Promise<Run> {
  const changed: Run = { ...run, ...change, changedAtMs: atMs, lastSequence: run.lastSequence + rows.length }
  const stored = rows.map(
    ({ type, key = null, payload = {}, iteration = changed.iteration }, index): StoredEvent => ({
      sequence: run.lastSequence + index + 1,
      type,
      key,
      payloadText: JSON.stringify(payload),
      state: changed.state,
      iteration,
      atMs,
    }),
  )
  if (run.lastSequence === 0) await store.insertRun(tx, changed)
  else await store.saveRun(tx, changed)
  for (const event of stored) await store.insertEvent(tx, run.tenant, run.id, event)
  await log.appendEntry(tx, run.tenant, toRunEntry(changed, atMs, stored))
  return changed
}

const PAGE = 500

/** The whole journal of a run, page by page. */
export async function* readJournal(
  { store }: Pick<JournalDeps, 'store'>,
  tx: ReadTx | WriteTx,
  tenant: TenantId,
  id: string,
  after = 0,
): AsyncGenerator<RunEvent> {
  for (let last = after; ; ) {
    const rows = await store.listEvents(tx, tenant, id, { after: last, limit: PAGE })
    for (const row of rows) yield toEvent(row)
    if (rows.length < PAGE) return
    last = rows.at(-1)!.sequence
  }
}

export const toEvent = ({ payloadText, ...rest }: StoredEvent): RunEvent => ({
  ...rest,
  payload: JSON.parse(payloadText) as Json,
})
