import type { TenantId } from '../contract/principal.ts'
import { canonicalString } from '../kernel/canonical-json.ts'
import { isoTime } from '../kernel/clock.ts'
import { sha256Hex } from '../kernel/hash.ts'
import type { NewLogEntry } from './ports.ts'

/** The part of a run's journal row that the log covers. */
type JournalRow = Readonly<{
  sequence: number
  type: string
  key: string | null
  payloadText: string
  state: string | null
  iteration: number | null
  atMs: number
}>

/** SHA-256 over the JSON of a list: sequence, type, key, state, iteration, time in milliseconds, payload text. */
const journalRowDigest = (row: JournalRow): string =>
  `sha256:${sha256Hex(
    JSON.stringify([row.sequence, row.type, row.key, row.state, row.iteration, row.atMs, row.payloadText]),
  )}`

/** The log entry of one commit of a run: the new rows of its journal, and the state of the run afterwards. */
export function toRunEntry(
  run: Readonly<{ tenant: TenantId; id: string; status: string }>,
  atMs: number,
  rows: readonly JournalRow[],
): NewLogEntry {
  const events = rows.map(
    (row) =>
      `{"digest":"${journalRowDigest(row)}","sequence":${row.sequence},"type":${canonicalString(row.type.toWellFormed())}}`,
  )
  const record = `{"at":"${isoTime(atMs)}","events":[${events.join()}],"kind":"run","run_id":${canonicalString(run.id)},"status":"${run.status}","tenant":${canonicalString(run.tenant)},"v":1}`
  return { atMs, record, taskNumber: null, recordHash: null }
}
