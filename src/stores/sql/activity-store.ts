import type { ActivityFilter, ActivityStore, AgentEvent, RunSpan } from '../../domains/agents/ports.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import { type Builder, rawStatement, statement, statementFamily, type Value } from './statements.ts'
import { sessionOf } from './tx.ts'

type Args = Record<string, Value>
type Sql = Parameters<Builder<Args, unknown>>[2]['sql']
type Sum = Readonly<{ total: number | string | null }>

/** `o`: those of one owner; `b`: backwards. */
const runsOf = (shape: string, arg: (name: string) => Value, sql: Sql) => {
  const theirs = shape.includes('o') ? sql`AND owner = ${arg('owner')}` : sql``
  return sql`FROM runs WHERE tenant = ${arg('tenant')} AND subject_id = ${arg('agent_id')} AND kind = 'execution' ${theirs}`
}

/** The index has the number of events of a run once it has ended. Few runs have not ended. */
const totalFamily = statementFamily<Args, Sum>(
  'activity-store.totalFamily',
  (shape) =>
    (db, arg, { sql }) =>
      rawStatement(
        sql`SELECT COALESCE((SELECT SUM(ended_sequence) ${runsOf(shape, arg, sql)}), 0)
              + COALESCE((SELECT SUM(last_sequence) ${runsOf(shape, arg, sql)} AND ended_sequence IS NULL), 0)
              + (SELECT COUNT(*) FROM agent_events
                 WHERE tenant = ${arg('agent_tenant')} AND agent_id = ${arg('agent_id')}) AS total`,
        db,
      ),
  ['', 'o'],
)
const runFamily = statementFamily<Args, { id: string; at: number; events: number }>(
  'activity-store.runFamily',
  (shape) =>
    (db, arg, { sql }) => {
      const beyond = shape.includes('b') ? sql`<` : sql`>`
      const order = shape.includes('b') ? sql`DESC` : sql`ASC`
      return rawStatement(
        sql`SELECT id, started_at AS at, COALESCE(ended_sequence, last_sequence) AS events ${runsOf(shape, arg, sql)}
            AND (started_at, id) ${beyond} (${arg('after_at')}, ${arg('after_id')})
            ORDER BY started_at ${order}, id ${order} LIMIT ${arg('limit')}`,
        db,
      )
    },
  ['', 'o', 'b', 'ob'],
)
const listEvents = statement<{ tenant: string; agent_id: string }>('activity-store.listEvents')((db, arg) =>
  db
    .selectFrom('agent_events')
    .selectAll()
    .where('tenant', '=', arg('tenant'))
    .where('agent_id', '=', arg('agent_id'))
    .orderBy('sequence'),
)

const shapeOf = ({ owner }: ActivityFilter): string => (owner === undefined ? '' : 'o')
const argsOf = ({ tenant, agent, owner }: ActivityFilter): Args => ({
  tenant,
  agent_id: agent.id,
  agent_tenant: agent.tenant,
  owner: owner ?? null,
})

export const sqlActivityStore: ActivityStore = {
  async countEvents(tx, filter) {
    return Number((await sessionOf(tx).get(totalFamily(shapeOf(filter)), argsOf(filter)))?.total ?? 0)
  },
  async runsAfter(tx, filter, { after, isBackward, limit }) {
    const args = { ...argsOf(filter), after_at: after.atMs, after_id: after.runId, limit }
    const rows = await sessionOf(tx).all(runFamily(`${shapeOf(filter)}${isBackward ? 'b' : ''}`), args)
    return rows.map(({ id, at, events }): RunSpan => ({ runId: id, atMs: at, events }))
  },
  async eventsOf(tx, { tenant, id }) {
    const rows = await sessionOf(tx).all(listEvents, { tenant, agent_id: id })
    return rows.map(
      (row): AgentEvent => ({
        agentId: row.agent_id,
        type: row.type,
        payload: JSON.parse(row.payload) as Record<string, Json>,
        atMs: row.at,
      }),
    )
  },
}
