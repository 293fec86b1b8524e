import { createHash } from 'node:crypto'
import { sha256Hex } from '../../kernel/hash.ts'
import { isMembers, type Members } from './entities.ts'
import type { ReportFinding } from './findings.ts'
import type { FsckRunEventRow, FsckRunRow } from './source.ts'

/** What the log says about one run: the number of journal rows, a digest over all their digests, and how it ended. */
type LoggedRun = { last: number; chain: string; status: string }

/**
 * Runs are too long to hold while the log is read, so their journals are compared by a digest that grows with every row, on both
 * sides alike.
 */
export type RunCheck = Readonly<{
  /** An entry of the kind `run`. */
  apply(record: Members, seq: number): void
  /** An effect that removed a run. */
  remove(body: Members): void
  compare(runs: AsyncIterable<FsckRunRow>, events: AsyncIterable<FsckRunEventRow>): Promise<void>
}>

const ENDED = new Set(['completed', 'failed', 'cancelled'])

export function createRunCheck(report: ReportFinding): RunCheck {
  const logged = new Map<string, LoggedRun>()

  function apply(record: Members, seq: number): void {
    const location = { table: 'log_entries', row: String(seq) } as const
    const { run_id: id, events, status } = record
    if (typeof id !== 'string' || typeof status !== 'string' || !Array.isArray(events)) {
      report({ ...location, rule: 'log.record-shape', field: typeof id === 'string' ? 'events' : 'run_id' })
      return
    }
    const run = logged.get(id) ?? { last: 0, chain: '', status: '' }
    logged.set(id, run)
    if (ENDED.has(run.status)) report({ ...location, rule: 'run.ended', field: 'run_id', actual: id })
    run.status = status
    for (const [position, event] of events.entries()) {
      const field = `events[${position}]`
      if (!isMembers(event) || typeof event['digest'] !== 'string' || typeof event['type'] !== 'string') {
        report({ ...location, rule: 'log.record-shape', field })
        continue
      }
      if (event['sequence'] !== run.last + 1) {
        report({ ...location, rule: 'run.sequence', field, expected: run.last + 1, actual: event['sequence'] })
      }
      run.last++
      run.chain = grow(run.chain, event['digest'])
    }
  }

  /** The first row that differs cannot be named; only that the journal differs, and the length of both. */
  async function compareJournals(events: AsyncIterable<FsckRunEventRow>): Promise<ReadonlyMap<string, LoggedRun>> {
    const stored = new Map<string, LoggedRun>()
    for await (const row of events) {
      const run = stored.get(row.run_id) ?? { last: 0, chain: '', status: '' }
      stored.set(row.run_id, run)
      run.last++
      run.chain = grow(run.chain, digestOf(row))
    }
    for (const [id, { last, chain }] of stored) {
      const expected = logged.get(id)
      if (expected === undefined) report({ table: 'run_journal', row: id, rule: 'row.extra' })
      else if (last !== expected.last || chain !== expected.chain) {
        report({ table: 'run_journal', row: id, rule: 'run.journal', expected: expected.last, actual: last })
      }
    }
    return stored
  }

  return {
    apply,
    remove: (body) => void logged.delete(String(body['run_id'])),
    async compare(runs, events) {
      const stored = await compareJournals(events)
      const missing = new Set(logged.keys())
      for await (const { run_id: id, status, last_sequence: last } of runs) {
        const expected = logged.get(id)
        if (expected === undefined || !missing.delete(id)) {
          report({ table: 'runs', row: id, rule: 'row.extra' })
          continue
        }
        if (!stored.has(id)) report({ table: 'run_journal', row: id, rule: 'row.missing' })
        const location = { table: 'runs', row: id, rule: 'row.field' } as const
        if (last !== expected.last) {
          report({ ...location, field: 'last_sequence', expected: expected.last, actual: last })
        }
        // The log does not record that a run is active, only that it has ended.
        if (status !== expected.status && (ENDED.has(status) || ENDED.has(expected.status))) {
          report({ ...location, field: 'status', expected: expected.status, actual: status })
        }
      }
      for (const id of missing) report({ table: 'runs', row: id, rule: 'row.missing' })
    },
  }
}

const grow = (chain: string, digest: string): string => createHash('sha256').update(chain).update(digest).digest('hex')

/** The documented form of the log's entry: SHA-256 over the JSON of a list of the row's fields. */
const digestOf = (row: FsckRunEventRow): string =>
  `sha256:${sha256Hex(
    JSON.stringify([row.sequence, row.type, row.key, row.state, row.iteration, row.at_ms, row.payload]),
  )}`
