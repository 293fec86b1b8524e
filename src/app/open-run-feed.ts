import type { Database } from '../contract/database.ts'
import type { Engine, RunEvent } from '../engine/ports.ts'
import type { RunFeed } from '../http/rest-routes.ts'

/** What becomes of runs, for doors that show it as it happens. */
export const openRunFeed = (engine: Engine, database: Database): RunFeed => ({
  async open(tenant, id, { fromSequence, follow, signal }) {
    const run = await engine.find(database.read, tenant, id)
    if (run === undefined) return undefined
    const events = engine.subscribe(tenant, id, { fromSequence, signal })
    return {
      subject: { id: run.subjectId, name: run.subjectName },
      events: follow ? events : upTo(events, fromSequence, run.lastSequence),
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
