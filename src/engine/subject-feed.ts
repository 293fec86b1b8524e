import type { TenantId } from '../contract/principal.ts'
import type { EngineDeps } from './core.ts'
import { toEvent } from './journal.ts'
import type { RunEvent, RunPosition } from './ports.ts'

/**
 * What the runs of one subject do, in the order of time. Runs are at work beside each other, so no single number says how
 * far a reader is: a place is the time of the newest event that it has seen, and for the runs that did something shortly
 * before that, how far it has seen each. What is older than that while it has all of.
 */
export type FeedCursor = Readonly<{ atMs: number; seen: ReadonlyMap<string, number> }>
export type SubjectEvent = Readonly<{ runId: string; event: RunEvent; cursor: string }>

/** Commits may come later than the times in them by less than this. */
const WINDOW_MS = 10_000
/** Of more runs than this at once, a reader that comes back sees the last moments again. */
const SEEN_MAX = 48
const PAGE = 50
/** Runs that a new reader is told about, and runs that can still be followed. */
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

/** One reader: asked again whenever something may have changed, it tells what it has not told. */
export function createSubjectReader(
  { store, database }: Pick<EngineDeps, 'store' | 'database'>,
  tenant: TenantId,
  wanted: Readonly<{ subjectId: string; owner?: string | undefined; from?: FeedCursor | undefined }>,
) {
  let newestMs = wanted.from?.atMs ?? 0
  let isFirst = wanted.from === undefined
  const seen = new Map<string, Seen>()
  for (const [id, sequence] of wanted.from?.seen ?? []) seen.set(id, { sequence, atMs: newestMs })
  /** What is not among the seen is known up to here. */
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
    const runs = await store.runPositions(database.read, tenant, { ...wanted, limit: RUNS_MAX })
    const asked = isFirst ? runs.slice(0, RUNS_TOLD) : runs
    isFirst = false
    const behind = asked.filter(({ id, lastSequence, changedAtMs }) => {
      const told = seen.get(id)
      return told === undefined ? changedAtMs > knownMs : told.sequence < lastSequence
    })
    for await (const [run, event] of inOrder(behind.map((run) => ({ run, events: unseen(run) })))) {
      yield { runId: run.id, event, cursor: cursorAfter(run.id, event) }
    }
    // What is too old to be told counts as told, so that it is not read again.
    for (const run of runs) {
      if (!seen.has(run.id)) seen.set(run.id, { sequence: run.lastSequence, atMs: run.changedAtMs })
    }
    const listed = new Set(runs.map(({ id }) => id))
    for (const id of seen.keys()) if (!listed.has(id)) seen.delete(id)
  }

  return { read }
}

/** Several journals as one, by time. */
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
