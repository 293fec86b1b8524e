import type { ReadTx } from '../../contract/tx.ts'
import type { ActivityFilter, ActivityPage, ActivitySpan, ActivityStore, RunSpan } from './ports.ts'

/** The first read is for a page at an end of the activity; a caller in the middle of a long one continues in large steps. */
const RUNS_FIRST = 200
const RUNS_NEXT = 2_000

/**
 * The spans of a page's events, found from the nearer end. `from` of a span counts the events before it. An event of the agent
 * itself precedes an execution that began at the same time.
 */
export async function spansAt(
  store: ActivityStore,
  tx: ReadTx,
  filter: ActivityFilter,
  { limit, offset }: ActivityPage,
  total: number,
): Promise<readonly (ActivitySpan & Readonly<{ from: number }>)[]> {
  const end = Math.min(offset + limit, total)
  if (offset >= end) return []
  const isBackward = offset > total - end
  const found: (ActivitySpan & Readonly<{ from: number }>)[] = []
  let from = isBackward ? total : 0
  for await (const spans of inOrder(store, tx, filter, isBackward)) {
    for (const span of spans) {
      if (isBackward) from -= span.events
      if (from < end && from + span.events > offset) found.push({ ...span, from })
      if (!isBackward) from += span.events
    }
    if (isBackward ? from <= offset : from >= end) break
  }
  return isBackward ? found.toReversed() : found
}

/** In pages, so that a caller can stop early. */
async function* inOrder(
  store: ActivityStore,
  tx: ReadTx,
  filter: ActivityFilter,
  isBackward: boolean,
): AsyncGenerator<readonly ActivitySpan[]> {
  const own = (await store.eventsOf(tx, filter.agent)).map((event): ActivitySpan => ({ event, events: 1 }))
  // Reversed, because items are taken from the end.
  const left = isBackward ? own : own.toReversed()
  let after: Pick<RunSpan, 'atMs' | 'runId'> = { atMs: isBackward ? Number.MAX_SAFE_INTEGER : -1, runId: '' }
  for (let limit = RUNS_FIRST; ; limit = RUNS_NEXT) {
    const runs = await store.runsAfter(tx, filter, { after, isBackward, limit })
    yield runs.flatMap((run) => [...takenBefore(run, left, isBackward), run])
    if (runs.length < limit) break
    after = runs.at(-1)!
  }
  yield left.toReversed()
}

function takenBefore(run: RunSpan, left: ActivitySpan[], isBackward: boolean): readonly ActivitySpan[] {
  const taken: ActivitySpan[] = []
  for (;;) {
    const next = left.at(-1)
    if (next === undefined || !('event' in next)) return taken
    const { atMs } = next.event
    if (isBackward ? atMs <= run.atMs : atMs > run.atMs) return taken
    taken.push(next)
    left.pop()
  }
}
