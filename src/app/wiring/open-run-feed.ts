import type { Database } from '../../contract/database.ts'
import { identityOf, type Principal } from '../../contract/principal.ts'
import { ownerSeenBy, toLogRow } from '../../domains/executions/service.ts'
import type { Engine, RunEvent } from '../../engine/ports.ts'
import { parseCursor } from '../../engine/subject-feed.ts'
import type { FeedEvent, RunFeed } from '../../http/rest-routes.ts'
import type { OwnerWatch } from './open-owner-watch.ts'

/** What becomes of runs, for transports that show it as it happens. */
export const openRunFeed = (
  engine: Engine,
  database: Database,
  ownerWatch: Pick<OwnerWatch, 'onRevoked' | 'watch'>,
): RunFeed => ({
  async open(principal, id, { fromSequence, follow, verbose, signal }) {
    const { tenant } = principal
    const run = await engine.find(database.read, tenant, id)
    if (run === undefined) return undefined
    const stay = staying(ownerWatch, principal, signal)
    const events = engine.subscribe(tenant, id, { fromSequence, signal: stay.signal })
    const wanted = stay.closing(follow ? events : upTo(events, fromSequence, run.lastSequence))
    return { subject: { id: run.subjectId, name: run.subjectName }, events: verbose ? wanted : shortened(wanted) }
  },
  async openAgent(viewer, subjectId, { from, follow, verbose, signal }) {
    const cursor = from === undefined ? undefined : parseCursor(from)
    if (from !== undefined && cursor === undefined) return undefined
    const owner = await ownerSeenBy(engine, database.read, viewer)
    const stay = staying(ownerWatch, viewer, signal)
    const wanted = { subjectId, owner, from: cursor, follow, signal: stay.signal }
    const events = stay.closing(engine.subscribeSubject(viewer.tenant, wanted))
    return verbose ? events : shortenedOf(events)
  },
})

async function* upTo(events: AsyncIterable<RunEvent>, from: number, last: number): AsyncGenerator<RunEvent> {
  if (from >= last) return
  for await (const event of events) {
    yield event
    if (event.sequence >= last) return
  }
}

/** For as long as the viewer may call: one that is gone sees nothing more. */
function staying(ownerWatch: Pick<OwnerWatch, 'onRevoked' | 'watch'>, principal: Principal, signal: AbortSignal) {
  const revoked = new AbortController()
  const viewer = identityOf(principal)
  const stopListening = ownerWatch.onRevoked((cursor, owner) => {
    if (cursor === principal.tenant && owner === viewer) revoked.abort()
  })
  const stopWatching = ownerWatch.watch(principal)
  async function* closing<T>(events: AsyncIterable<T>): AsyncGenerator<T> {
    try {
      yield* events
    } finally {
      stopListening()
      stopWatching()
    }
  }
  return { signal: AbortSignal.any([signal, revoked.signal]), closing }
}

/** As pages of the log show them. */
const short = (event: RunEvent): FeedEvent => ({ ...event, payload: toLogRow(event).payload })

async function* shortened(events: AsyncIterable<RunEvent>): AsyncGenerator<FeedEvent> {
  for await (const event of events) yield short(event)
}

async function* shortenedOf<T extends Readonly<{ event: RunEvent }>>(events: AsyncIterable<T>) {
  for await (const one of events) yield { ...one, event: short(one.event) }
}
