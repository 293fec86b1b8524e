import type { Database } from '../contract/database.ts'
import { identityOf } from '../contract/principal.ts'
import type { Engine, RunEvent } from '../engine/ports.ts'
import type { RunFeed } from '../http/rest-routes.ts'
import type { Starters } from './open-starters.ts'

/** What becomes of runs, for doors that show it as it happens. */
export const openRunFeed = (engine: Engine, database: Database, starters: Pick<Starters, 'onGone'>): RunFeed => ({
  async open(principal, id, { fromSequence, follow, signal }) {
    const { tenant } = principal
    const run = await engine.find(database.read, tenant, id)
    if (run === undefined) return undefined
    const gone = new AbortController()
    const viewer = identityOf(principal)
    const stopListening = starters.onGone((place, owner) => {
      if (place === tenant && owner === viewer) gone.abort()
    })
    const events = engine.subscribe(tenant, id, { fromSequence, signal: AbortSignal.any([signal, gone.signal]) })
    return {
      subject: { id: run.subjectId, name: run.subjectName },
      events: closing(follow ? events : upTo(events, fromSequence, run.lastSequence), stopListening),
    }
  },
})

async function* upTo(events: AsyncIterable<RunEvent>, from: number, last: number): AsyncGenerator<RunEvent> {
  if (from >= last) return
  for await (const event of events) {
    yield event
    if (event.sequence >= last) return
  }
}

async function* closing(events: AsyncIterable<RunEvent>, close: () => void): AsyncGenerator<RunEvent> {
  try {
    yield* events
  } finally {
    close()
  }
}
