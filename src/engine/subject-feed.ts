import type { TenantId } from '../contract/principal.ts'
import type { EngineDeps } from './core.ts'
import { toEvent } from './journal.ts'
import type { RunEvent, RunPosition } from './ports.ts'

/**
 * The events of one subject's runs, in order of time. Runs are active in parallel, so no single number says how far a reader is.
 * A cursor is the time of the newest event that the reader has seen, and for each run that was active shortly before, how far the
 * reader has seen it. All older events have been seen.
 */
export type FeedCursor = Readonly<{ atMs: number; seen: ReadonlyMap<string, number> }>
export type SubjectEvent = Readonly<{ runId: string; event: RunEvent; cursor: string }>

/** Commits may be later than the times in them by less than this. */
const WINDOW_MS = 10_000
/** With more parallel runs than this, a reader that comes back sees the last moments again. */
const SEEN_MAX = 48
const PAGE = 50
/** Runs that a new reader gets, and runs that can still be followed. */
const RUNS_TOLD = 50
const RUNS_MAX = 200

/** Undefined for what is not a cursor. */
export function parseCursor(text: string): FeedCursor | undefined {
  const match = /^(\d{1,15})((?:~[\w-]{1,64}\.\d{1,15}){0,48})$/.exec(text)
  if (match === null) return undefined
  const parts = match[2]!.split('~').slice(1)
  const seen = parts.map((part): [string, number] => {
    const split = part.lastIndexOf('.')
    return [part.slice(0, split), Number(part.slice(split + 1))]
  })
  return { atMs: Number(match[1]), seen: new Map(seen) }
}

type Reading = Readonly<{ run: RunPosition; events: AsyncGenerator<RunEvent> }>
type Seen = { sequence: number; atMs: number }

/** One reader: each call returns the events that it has not returned yet. */
export function createSubjectReader(
  { store, database }: Pick<EngineDeps, 'store' | 'database'>,
  tenant: TenantId,
  filter: Readonly<{ subjectId: string; owner?: string | undefined; from?: FeedCursor | undefined }>,
) {
  let newestMs = filter.from?.atMs ?? 0
  let isFirst = filter.from === undefined
  const seen = new Map<string, Seen>()
  for (const [id, sequence] of filter.from?.seen ?? []) seen.set(id, { sequence, atMs: newestMs })
  /** Runs that are not listed as seen have been seen up to here. */
  const knownMs = newestMs - WINDOW_MS

  async function* unseen(run: RunPosition): AsyncGenerator<RunEvent> {
    const from = seen.get(run.id)
    for (let after = from?.sequence ?? 0; after < run.lastSequence; ) {
      const rows = await store.listEvents(database.read, tenant, run.id, { after, limit: PAGE })
      if (rows.length === 0) return
      for (const row of rows) if (from !== undefined || row.atMs > knownMs) yield toEvent(row)
      after = rows.at(-1)!.sequence
    }
  }

  function cursorAfter(runId: string, event: RunEvent): string {
    newestMs = Math.max(newestMs, event.atMs)
    seen.delete(runId)
    seen.set(runId, { sequence: event.sequence, atMs: event.atMs })
    const recent = [...seen].filter(([, { atMs }]) => atMs > newestMs - WINDOW_MS).slice(-SEEN_MAX)
    return [newestMs, ...recent.map(([id, { sequence }]) => `${id}.${sequence}`)].join('~')
  }

  async function* read(): AsyncGenerator<SubjectEvent> {
    const runs = await store.runPositions(database.read, tenant, { ...filter, limit: RUNS_MAX })
    const queried = isFirst ? runs.slice(0, RUNS_TOLD) : runs
    isFirst = false
    const behind = queried.filter(({ id, lastSequence, changedAtMs }) => {
      const told = seen.get(id)
      return told === undefined ? changedAtMs > knownMs : told.sequence < lastSequence
    })
    for await (const [run, event] of inOrder(behind.map((run) => ({ run, events: unseen(run) })))) {
      yield { runId: run.id, event, cursor: cursorAfter(run.id, event) }
    }
    // Events too old to be returned count as returned, so that they are not read again.
    for (const run of runs) {
      if (!seen.has(run.id)) seen.set(run.id, { sequence: run.lastSequence, atMs: run.changedAtMs })
    }
    const listed = new Set(runs.map(({ id }) => id))
    for (const id of seen.keys()) if (!listed.has(id)) seen.delete(id)
  }

  return { read }
}

/** Merges several journals by time. */
async function* inOrder(readings: readonly Reading[]): AsyncGenerator<[RunPosition, RunEvent]> {
  const heads: { reading: Reading; event: RunEvent }[] = []
  try {
    for (const reading of readings) await advance(reading)
    for (;;) {
      let first: (typeof heads)[number] | undefined
      for (const head of heads) if (first === undefined || head.event.atMs < first.event.atMs) first = head
      if (first === undefined) return
      yield [first.reading.run, first.event]
      heads.splice(heads.indexOf(first), 1)
      await advance(first.reading)
    }
  } finally {
    for (const { events } of readings) await events.return(undefined)
  }

  async function advance(reading: Reading): Promise<void> {
    const next = await reading.events.next()
    if (next.done !== true) heads.push({ reading, event: next.value })
  }
}
