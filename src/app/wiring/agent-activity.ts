import { spansAt } from '../../domains/agents/activity.ts'
import type { ActivityEvent, ActivityLog, ActivityStore } from '../../domains/agents/ports.ts'
import { ownerSeenBy, toLogRow } from '../../domains/executions/service.ts'
import type { Engine } from '../../engine/ports.ts'
import type { Json } from '../../kernel/canonical-json.ts'

/** The events of an agent and of its executions. */
export const activityOf = (engine: Engine, store: ActivityStore): ActivityLog => {
  return {
    async countOf(read, viewer, subjectId) {
      return await engine.count(read, viewer.tenant, {
        kind: 'execution',
        subjectId,
        owner: await ownerSeenBy(engine, read, viewer),
      })
    },
    async activityOf(read, viewer, agent, { limit, offset }) {
      const { tenant } = viewer
      const owner = await ownerSeenBy(engine, read, viewer)
      const filter = { tenant, agent, owner }
      const total = await store.countEvents(read, filter)
      const spans = await spansAt(store, read, filter, { offset, limit }, total)
      const events: ActivityEvent[] = []
      const rootIds = new Set<string>()
      for (const span of spans) {
        if (events.length >= limit) break
        if ('event' in span) {
          const { type, payload, atMs } = span.event
          const { by, ...told } = payload
          // Other tenants do not learn who deploys a global agent.
          events.push({ eventType: type, payload: agent.tenant === tenant ? payload : told, recordedAtMs: atMs })
          continue
        }
        const skip = Math.max(0, offset - span.from)
        const run = { tenant, id: span.runId, lastSequence: span.events }
        rootIds.add((await engine.find(read, tenant, span.runId))?.rootId ?? span.runId)
        const page = await engine.events(read, run, { limit: limit - events.length, offset: skip })
        for (const event of page.events) {
          const { payload } = toLogRow(event)
          events.push({
            eventType: event.type,
            payload: { ...(payload as Record<string, Json>), execution_id: run.id },
            recordedAtMs: event.atMs,
          })
        }
      }
      return { events, total, rootIds: [...rootIds] }
    },
  }
}
