import { toRunEntry } from '../../src/audit/run-entry.ts'
import { tenantId } from '../../src/contract/principal.ts'
import { type BrokenCase, set } from './broken-log-cases.ts'
import { type SampleDatabase, type SampleEffect, type SampleRecord, TENANT } from './sample-log.ts'

/** A run with three rows in two entries, ended, put behind the sample log; its entries are the 14th and the 15th. */
const rows = [1, 2, 3].map((sequence) => ({
  sequence,
  type: `event_${sequence}`,
  key: sequence === 2 ? 'step' : null,
  payloadText: `{"n":${sequence}}`,
  state: null,
  iteration: sequence,
  atMs: 1_790_000_100_000 + sequence,
}))
const entry = (status: string, from: number, to: number): SampleRecord =>
  JSON.parse(
    toRunEntry({ tenant: tenantId(TENANT), id: 'run-1', status }, rows[0]!.atMs, rows.slice(from, to)).record,
  ) as SampleRecord

export const addRunEntries = (records: SampleRecord[]): void =>
  void records.push(entry('running', 0, 1), entry('completed', 1, 3))

export function addRunRows(database: SampleDatabase): void {
  database.runs.push({ run_id: 'run-1', status: 'completed', last_sequence: 3 })
  for (const { sequence, type, key, payloadText, state, iteration, atMs } of rows) {
    database.runEvents.push({
      run_id: 'run-1',
      sequence,
      type,
      key,
      payload: payloadText,
      state,
      iteration,
      at_ms: atMs,
    })
  }
}

export const removal: SampleEffect = { kind: 'run_removed', body: { run_id: 'run-1' } }

const storedRun = (name: string, tables: (database: SampleDatabase) => void, ...expected: string[]): BrokenCase => ({
  name,
  records: addRunEntries,
  tables(database) {
    addRunRows(database)
    tables(database)
  },
  expected,
})
const loggedRun = (name: string, change: (records: SampleRecord[]) => void, ...expected: string[]): BrokenCase => ({
  name,
  records(records) {
    addRunEntries(records)
    change(records)
  },
  tables: addRunRows,
  expected,
})

export const brokenRunCases: readonly BrokenCase[] = [
  storedRun('a run is missing', (db) => db.runs.pop(), 'runs run-1 row.missing'),
  storedRun('a run is there twice', (db) => db.runs.push(db.runs[0]!), 'runs run-1 row.extra'),
  storedRun('a run ended otherwise', (db) => set(db.runs[0], { status: 'failed' }), 'runs run-1 row.field status'),
  storedRun('a run counts wrong', (db) => set(db.runs[0], { last_sequence: 4 }), 'runs run-1 row.field last_sequence'),
  storedRun('the last row of a journal is missing', (db) => db.runEvents.pop(), 'run_journal run-1 run.journal'),
  storedRun('a journal is missing', (db) => db.runEvents.splice(0), 'run_journal run-1 row.missing'),
  storedRun(
    'a result in a journal was edited',
    (db) => set(db.runEvents[1], { payload: '{"n":20}' }),
    'run_journal run-1 run.journal',
  ),
  storedRun(
    'a journal comes from nowhere',
    (db) => db.runEvents.push({ ...db.runEvents[0]!, run_id: 'run-2' }),
    'run_journal run-2 row.extra',
  ),
  loggedRun(
    'rows of a run are numbered with a gap',
    (records) => set((records[14]!['events'] as { sequence: number }[])[0], { sequence: 3 }),
    'log_entries 14 run.sequence events[0]',
  ),
  loggedRun(
    'a run changes after its end',
    (records) => set(records[13], { status: 'failed' }),
    'log_entries 14 run.ended run_id',
  ),
  loggedRun(
    'an entry of a run has no id',
    (records) => set(records[14], { run_id: 7 }),
    'log_entries 14 log.record-shape run_id',
    'run_journal run-1 run.journal',
    'runs run-1 row.field last_sequence',
    'runs run-1 row.field status',
  ),
  loggedRun(
    'an event of a run has no digest',
    (records) => set((records[14]!['events'] as object[])[1], { digest: 7 } as object),
    'log_entries 14 log.record-shape events[1]',
    'run_journal run-1 run.journal',
    'runs run-1 row.field last_sequence',
  ),
]
