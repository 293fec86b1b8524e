import type { Selectable } from 'kysely'
import type { Agent, AgentStore, AgentVersion } from '../../domains/agents/ports.ts'
import { lockUntilCommit } from './advisory-lock.ts'
import { json, rowMap } from './row-map.ts'
import type { AgentEventTable, AgentTable, AgentVersionTable } from './schema.ts'
import { isVisible, type ViewerArgs, viewerArgs } from './sharing.ts'
import { rawStatement, statement } from './statements.ts'
import { ownWriterOf, sessionOf } from './tx.ts'

type AgentRow = Selectable<AgentTable>
type VersionRow = Selectable<AgentVersionTable>
type RowId = { tenant: string; id: string }

const agents = rowMap<AgentRow, Agent>()({
  tenant: 'tenant',
  id: 'id',
  name: 'name',
  status: 'status',
  latestVersion: 'latest_version',
  description: 'description',
  labels: json('labels'),
  createdAtMs: 'created_at',
  createdBy: 'created_by',
  updatedAtMs: 'updated_at',
})
const versions = rowMap<VersionRow, AgentVersion>()({
  agentId: 'agent_id',
  version: 'version',
  manifestYaml: 'manifest_yaml',
  createdAtMs: 'created_at',
  createdBy: 'created_by',
})

const savedColumns = ['status', 'latest_version', 'description', 'labels', 'updated_at'] as const
const insertAgent = statement<AgentRow>('agent-store.insertAgent')((db, _arg, { columns }) =>
  db.insertInto('agents').values(columns(['tenant', 'id', 'name', 'created_at', 'created_by', ...savedColumns])),
)
const saveAgent = statement<AgentRow>('agent-store.saveAgent')((db, arg, { columns }) =>
  db.updateTable('agents').set(columns(savedColumns)).where('tenant', '=', arg('tenant')).where('id', '=', arg('id')),
)
const deleteAgent = statement<RowId>('agent-store.deleteAgent')((db, arg) =>
  db.deleteFrom('agents').where('tenant', '=', arg('tenant')).where('id', '=', arg('id')),
)
const deleteVersionsOf = statement<RowId>('agent-store.deleteVersionsOf')((db, arg) =>
  db.deleteFrom('agent_versions').where('tenant', '=', arg('tenant')).where('agent_id', '=', arg('id')),
)
const deleteEventsOf = statement<RowId>('agent-store.deleteEventsOf')((db, arg) =>
  db.deleteFrom('agent_events').where('tenant', '=', arg('tenant')).where('agent_id', '=', arg('id')),
)
const moveEvents = statement<RowId & { to_tenant: string }>('agent-store.moveEvents')((db, arg) =>
  db
    .updateTable('agent_events')
    .set({ tenant: arg('to_tenant') })
    .where('tenant', '=', arg('tenant'))
    .where('agent_id', '=', arg('id')),
)
type EventRow = Omit<Selectable<AgentEventTable>, 'sequence'>
const insertEvent = statement<EventRow>('agent-store.insertEvent')((db, arg, { sql }) =>
  rawStatement(
    sql`INSERT INTO agent_events (tenant, agent_id, sequence, type, payload, at)
        SELECT ${arg('tenant')}, ${arg('agent_id')}, COALESCE(MAX(sequence), 0) + 1, ${arg('type')}, ${arg('payload')}, ${arg('at')}
        FROM agent_events WHERE tenant = ${arg('tenant')} AND agent_id = ${arg('agent_id')}`,
    db,
  ),
)
const findAgent = statement<RowId>('agent-store.findAgent')((db, arg) =>
  db.selectFrom('agents').selectAll().where('tenant', '=', arg('tenant')).where('id', '=', arg('id')),
)
const findAgentsByName = statement<{ tenant: string; name: string }>('agent-store.findAgentsByName')((db, arg) =>
  db
    .selectFrom('agents')
    .selectAll()
    .where('tenant', '=', arg('tenant'))
    .where('name', '=', arg('name'))
    .orderBy('created_at')
    .orderBy('id'),
)
const listAgents = statement<{ tenant: string } & ViewerArgs>('agent-store.listAgents')((db, arg, kit) =>
  db
    .selectFrom('agents')
    .innerJoin('profiles', (join) =>
      join.onRef('profiles.tenant', '=', 'agents.tenant').onRef('profiles.id', '=', 'agents.id'),
    )
    .selectAll('agents')
    .where('agents.tenant', '=', arg('tenant'))
    .where(isVisible(arg, kit, 'profiles', 'profile'))
    .orderBy('agents.name')
    .orderBy('agents.id'),
)
const countAgents = statement<{ tenant: string }>('agent-store.countAgents')((db, arg) =>
  db
    .selectFrom('agents')
    .select((expression) => expression.fn.countAll<number>().as('count'))
    .where('tenant', '=', arg('tenant')),
)
const versionColumns = ['manifest_yaml', 'created_at', 'created_by'] as const
const putVersion = statement<VersionRow>('agent-store.putVersion')((db, _arg, { columns }) =>
  db
    .insertInto('agent_versions')
    .values(columns(['tenant', 'agent_id', 'version', ...versionColumns]))
    .onConflict((conflict) => conflict.columns(['tenant', 'agent_id', 'version']).doUpdateSet(columns(versionColumns))),
)
const findVersion = statement<{ tenant: string; id: string; version: string }>('agent-store.findVersion')((db, arg) =>
  db
    .selectFrom('agent_versions')
    .selectAll()
    .where('tenant', '=', arg('tenant'))
    .where('agent_id', '=', arg('id'))
    .where('version', '=', arg('version')),
)
const versionsOf = statement<RowId>('agent-store.versionsOf')((db, arg) =>
  db
    .selectFrom('agent_versions')
    .select('version')
    .where('tenant', '=', arg('tenant'))
    .where('agent_id', '=', arg('id'))
    .orderBy('version'),
)

export const sqlAgentStore: AgentStore = {
  async lockShared(tx) {
    await lockUntilCommit(tx, 'agents of everybody')
  },
  async insertAgent(tx, tenant, agent) {
    await ownWriterOf(tx, tenant).run(insertAgent, agents.toRow(tenant, agent))
  },
  async saveAgent(tx, tenant, agent) {
    await ownWriterOf(tx, tenant).run(saveAgent, agents.toRow(tenant, agent))
  },
  async deleteAgent(tx, tenant, id) {
    const session = ownWriterOf(tx, tenant)
    await session.run(deleteVersionsOf, { tenant, id })
    await session.run(deleteEventsOf, { tenant, id })
    return (await session.run(deleteAgent, { tenant, id })) > 0
  },
  async findAgent(tx, tenant, id) {
    return agents.found(await sessionOf(tx).get(findAgent, { tenant, id }))
  },
  async findAgentsByName(tx, tenant, name) {
    return (await sessionOf(tx).all(findAgentsByName, { tenant, name })).map(agents.fromRow)
  },
  async listAgents(tx, tenant, viewer) {
    return (await sessionOf(tx).all(listAgents, { tenant, ...viewerArgs(viewer) })).map(agents.fromRow)
  },
  async countAgents(tx, tenant) {
    return (await sessionOf(tx).get(countAgents, { tenant }))?.count ?? 0
  },
  async putVersion(tx, tenant, version) {
    await ownWriterOf(tx, tenant).run(putVersion, versions.toRow(tenant, version))
  },
  async findVersion(tx, tenant, id, version) {
    return versions.found(await sessionOf(tx).get(findVersion, { tenant, id, version }))
  },
  async versionsOf(tx, tenant, id) {
    return (await sessionOf(tx).all(versionsOf, { tenant, id })).map(({ version }) => version)
  },
  async insertEvent(tx, tenant, { agentId, type, payload, atMs }) {
    const row = { tenant, agent_id: agentId, type, payload: JSON.stringify(payload), at: atMs }
    await ownWriterOf(tx, tenant).run(insertEvent, row)
  },
  async moveEvents(tx, from, to, id) {
    ownWriterOf(tx, from)
    await ownWriterOf(tx, to).run(moveEvents, { tenant: from, to_tenant: to, id })
  },
}
