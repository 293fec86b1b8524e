import type { Database } from '../../contract/database.ts'
import { identityOf, type Principal } from '../../contract/principal.ts'
import type { Trust } from '../../contract/trust.ts'
import { ownerSeenBy, toLogRow } from '../../domains/executions/service.ts'
import type { Engine, RunEvent } from '../../engine/ports.ts'
import { parseCursor } from '../../engine/subject-feed.ts'
import type { FeedEvent, RunFeed } from '../../http/rest-routes.ts'
import type { Clock } from '../../kernel/clock.ts'
import { inheritTrust } from './inherit-trust.ts'
import type { OwnerWatch } from './open-owner-watch.ts'

/** Live events of runs, for transports that stream them. */
export const openRunFeed = (
  engine: Engine,
  database: Database,
  ownerWatch: Pick<OwnerWatch, 'onRevoked' | 'watch'>,
  { trust, clock }: Readonly<{ trust: Trust; clock: Pick<Clock, 'nowMs'> }>,
): RunFeed => {
  const parts = { trust, database, clock }
  /**
   * A run may become untrusted while it is followed. The viewer then becomes untrusted before it gets the next event, as if it
   * had read the event with a tool.
   */
  async function* judged<T>(viewer: Principal, events: AsyncIterable<T>, rootOf: (event: T) => Promise<string>) {
    for await (const event of events) {
      await inheritTrust(parts, viewer, async () => `execution:${await rootOf(event)}`)
      yield event
    }
  }

  return {
    async open(principal, id, { fromSequence, follow, verbose, signal }) {
      const { tenant } = principal
      const run = await engine.find(database.read, tenant, id)
      if (run === undefined) return undefined
      const stay = staying(ownerWatch, principal, signal)
      const followed = engine.subscribe(tenant, id, { fromSequence, signal: stay.signal })
      const events = judged(principal, followed, async () => run.rootId)
      const selected = stay.closing(follow ? events : upTo(events, fromSequence, run.lastSequence))
      return { subject: { id: run.subjectId, name: run.subjectName }, events: verbose ? selected : shortened(selected) }
    },
    async openAgent(viewer, subjectId, { from, follow, verbose, signal }) {
      const cursor = from === undefined ? undefined : parseCursor(from)
      if (from !== undefined && cursor === undefined) return undefined
      const owner = await ownerSeenBy(engine, database.read, viewer)
      const stay = staying(ownerWatch, viewer, signal)
      const filter = { subjectId, owner, from: cursor, follow, signal: stay.signal }
      const roots = new Map<string, string>()
      const rootOf = async ({ runId }: Readonly<{ runId: string }>): Promise<string> => {
        const root = roots.get(runId) ?? (await engine.find(database.read, viewer.tenant, runId))?.rootId ?? runId
        roots.set(runId, root)
        return root
      }
      const events = stay.closing(judged(viewer, engine.subscribeSubject(viewer.tenant, filter), rootOf))
      return verbose ? events : shortenedOf(events)
    },
  }
}

async function* upTo(events: AsyncIterable<RunEvent>, from: number, last: number): AsyncGenerator<RunEvent> {
  if (from >= last) return
  for await (const event of events) {
    yield event
    if (event.sequence >= last) return
  }
}

/** The stream ends when the viewer is revoked. */
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

/** Shortened, as in pages of the log. */
const short = (event: RunEvent): FeedEvent => ({ ...event, payload: toLogRow(event).payload })

async function* shortened(events: AsyncIterable<RunEvent>): AsyncGenerator<FeedEvent> {
  for await (const event of events) yield short(event)
}

async function* shortenedOf<T extends Readonly<{ event: RunEvent }>>(events: AsyncIterable<T>) {
  for await (const one of events) yield { ...one, event: short(one.event) }
}
