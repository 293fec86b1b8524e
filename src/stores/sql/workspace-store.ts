import type { Selectable } from 'kysely'
import { tenantId } from '../../contract/principal.ts'
import type { Snapshot, Workspace, WorkspaceStore } from '../../domains/workspaces/ports.ts'
import { lockUntilCommit } from './advisory-lock.ts'
import { flag, json, jsonOrNull, rowMap } from './row-map.ts'
import type { WorkspaceSnapshotTable, WorkspaceTable } from './schema.ts'
import { statement } from './statements.ts'
import { sessionOf, writerOf } from './tx.ts'

type WorkspaceRow = Selectable<WorkspaceTable>
type SnapshotRow = Selectable<WorkspaceSnapshotTable>
type RowId = { tenant: string; id: string }
type OnNode = { node: string }

const workspaces = rowMap<WorkspaceRow, Workspace>()({
  tenant: 'tenant',
  id: 'id',
  name: 'name',
  owner: 'owner',
  state: 'state',
  desiredState: 'wanted',
  image: 'image',
  vcpus: 'vcpus',
  memoryMb: 'memory_mb',
  diskGb: 'disk_gb',
  ip: 'ip',
  network: json('network'),
  forwards: json('forwards'),
  env: json('env'),
  layers: json('layers'),
  mounts: json('mounts'),
  forkedFrom: jsonOrNull('forked_from'),
  currentSnapshotId: 'current_snapshot_id',
  node: 'node',
  operation: 'operation',
  team: 'team',
  boundTo: 'bound_to',
  createdAtMs: 'created_at',
  createdBy: 'created_by',
})
const snapshots = rowMap<SnapshotRow, Snapshot>()({
  tenant: 'tenant',
  id: 'id',
  workspaceId: 'workspace_id',
  sequence: 'sequence',
  name: 'name',
  layerId: 'layer_id',
  layers: json('layers'),
  parentId: 'parent_id',
  bytes: 'bytes',
  hasMemory: flag('has_memory'),
  state: 'state',
  createdAtMs: 'created_at',
  createdBy: 'created_by',
})

const savedColumns = [
  'name',
  'owner',
  'state',
  'wanted',
  'vcpus',
  'memory_mb',
  'disk_gb',
  'ip',
  'network',
  'forwards',
  'env',
  'layers',
  'current_snapshot_id',
  'operation',
  'team',
  'bound_to',
] as const
const insertWorkspace = statement<WorkspaceRow>('workspace-store.insertWorkspace')((db, _arg, { columns }) =>
  db.insertInto('workspaces').values(columns(workspaces.columns)),
)
const saveWorkspace = statement<WorkspaceRow>('workspace-store.saveWorkspace')((db, arg, { columns }) =>
  db
    .updateTable('workspaces')
    .set(columns(savedColumns))
    .where('tenant', '=', arg('tenant'))
    .where('id', '=', arg('id')),
)
const deleteWorkspace = statement<RowId>('workspace-store.deleteWorkspace')((db, arg) =>
  db.deleteFrom('workspaces').where('tenant', '=', arg('tenant')).where('id', '=', arg('id')),
)
const deleteSnapshotsOf = statement<RowId>('workspace-store.deleteSnapshotsOf')((db, arg) =>
  db.deleteFrom('workspace_snapshots').where('tenant', '=', arg('tenant')).where('workspace_id', '=', arg('id')),
)
const findWorkspace = statement<RowId>('workspace-store.findWorkspace')((db, arg) =>
  db.selectFrom('workspaces').selectAll().where('tenant', '=', arg('tenant')).where('id', '=', arg('id')),
)
const findWorkspaceByName = statement<{ tenant: string; name: string }>('workspace-store.findWorkspaceByName')(
  (db, arg) =>
    db.selectFrom('workspaces').selectAll().where('tenant', '=', arg('tenant')).where('name', '=', arg('name')),
)
const listWorkspaces = statement<{ tenant: string }>('workspace-store.listWorkspaces')((db, arg) =>
  db.selectFrom('workspaces').selectAll().where('tenant', '=', arg('tenant')).orderBy('created_at').orderBy('id'),
)
const resourcesOf = statement<{ tenant: string; owner: string }>('workspace-store.resourcesOf')((db, arg) =>
  db
    .selectFrom('workspaces')
    .select(['state', 'memory_mb', 'disk_gb'])
    .where('tenant', '=', arg('tenant'))
    .where('owner', '=', arg('owner')),
)
const insertSnapshot = statement<SnapshotRow>('workspace-store.insertSnapshot')((db, _arg, { columns }) =>
  db.insertInto('workspace_snapshots').values(columns(snapshots.columns)),
)
const saveSnapshot = statement<SnapshotRow>('workspace-store.saveSnapshot')((db, arg) =>
  db
    .updateTable('workspace_snapshots')
    .set({ parent_id: arg('parent_id'), bytes: arg('bytes'), state: arg('state') })
    .where('tenant', '=', arg('tenant'))
    .where('id', '=', arg('id')),
)
const deleteSnapshot = statement<RowId>('workspace-store.deleteSnapshot')((db, arg) =>
  db.deleteFrom('workspace_snapshots').where('tenant', '=', arg('tenant')).where('id', '=', arg('id')),
)
const findSnapshot = statement<{ tenant: string; workspace: string; name: string }>('workspace-store.findSnapshot')(
  (db, arg) =>
    db
      .selectFrom('workspace_snapshots')
      .selectAll()
      .where('tenant', '=', arg('tenant'))
      .where('workspace_id', '=', arg('workspace'))
      .where('name', '=', arg('name')),
)
const listSnapshots = statement<{ tenant: string; workspace: string }>('workspace-store.listSnapshots')((db, arg) =>
  db
    .selectFrom('workspace_snapshots')
    .selectAll()
    .where('tenant', '=', arg('tenant'))
    .where('workspace_id', '=', arg('workspace'))
    .orderBy('sequence'),
)
const layersOfWorkspaces = statement<{ tenant: string }>('workspace-store.layersOfWorkspaces')((db, arg) =>
  db.selectFrom('workspaces').select('layers').where('tenant', '=', arg('tenant')),
)
const layersOfSnapshots = statement<{ tenant: string }>('workspace-store.layersOfSnapshots')((db, arg) =>
  db.selectFrom('workspace_snapshots').select('layers').where('tenant', '=', arg('tenant')),
)
const countOnNode = statement<OnNode>('workspace-store.countOnNode')((db, arg) =>
  db
    .selectFrom('workspaces')
    .select((expression) => expression.fn.countAll<number>().as('count'))
    .where('node', '=', arg('node'))
    .where('state', '<>', 'archived'),
)
const ownersOnNode = statement<OnNode>('workspace-store.ownersOnNode')((db, arg) =>
  db
    .selectFrom('workspaces')
    .select(['tenant', 'owner'])
    .distinct()
    .where('node', '=', arg('node'))
    .where('state', '=', 'running'),
)
const forwardsOnNode = statement<OnNode>('workspace-store.forwardsOnNode')((db, arg) =>
  db.selectFrom('workspaces').select('forwards').where('node', '=', arg('node')),
)
const workspacesOnNode = statement<OnNode>('workspace-store.workspacesOnNode')((db, arg) =>
  db.selectFrom('workspaces').selectAll().where('node', '=', arg('node')).orderBy('created_at').orderBy('id'),
)
const snapshotLayersOnNode = statement<OnNode>('workspace-store.snapshotLayersOnNode')((db, arg) =>
  db
    .selectFrom('workspace_snapshots')
    .innerJoin('workspaces', (join) =>
      join
        .onRef('workspaces.tenant', '=', 'workspace_snapshots.tenant')
        .onRef('workspaces.id', '=', 'workspace_snapshots.workspace_id'),
    )
    .select('workspace_snapshots.layers as layers')
    .where('workspaces.node', '=', arg('node')),
)

export const sqlWorkspaceStore: WorkspaceStore = {
  async insertWorkspace(tx, tenant, workspace) {
    await writerOf(tx, tenant).run(insertWorkspace, workspaces.toRow(tenant, workspace))
  },
  async saveWorkspace(tx, tenant, workspace) {
    await writerOf(tx, tenant).run(saveWorkspace, workspaces.toRow(tenant, workspace))
  },
  async deleteWorkspace(tx, tenant, id) {
    const writer = writerOf(tx, tenant)
    await writer.run(deleteSnapshotsOf, { tenant, id })
    return (await writer.run(deleteWorkspace, { tenant, id })) > 0
  },
  async findWorkspace(tx, tenant, id) {
    return workspaces.found(await sessionOf(tx).get(findWorkspace, { tenant, id }))
  },
  async findWorkspaceByName(tx, tenant, name) {
    return workspaces.found(await sessionOf(tx).get(findWorkspaceByName, { tenant, name }))
  },
  async listWorkspaces(tx, tenant) {
    return (await sessionOf(tx).all(listWorkspaces, { tenant })).map(workspaces.fromRow)
  },
  async usageOf(tx, tenant, owner) {
    const rows = await sessionOf(tx).all(resourcesOf, { tenant, owner })
    const whole = rows.filter(({ state }) => state !== 'archived')
    return {
      workspaces: whole.length,
      memoryMb: whole.reduce((sum, row) => sum + row.memory_mb, 0),
      diskGb: rows.reduce((sum, row) => sum + row.disk_gb, 0),
    }
  },
  async insertSnapshot(tx, tenant, snapshot) {
    await writerOf(tx, tenant).run(insertSnapshot, snapshots.toRow(tenant, snapshot))
  },
  async saveSnapshot(tx, tenant, snapshot) {
    await writerOf(tx, tenant).run(saveSnapshot, snapshots.toRow(tenant, snapshot))
  },
  async deleteSnapshot(tx, tenant, id) {
    return (await writerOf(tx, tenant).run(deleteSnapshot, { tenant, id })) > 0
  },
  async findSnapshot(tx, tenant, workspace, name) {
    return snapshots.found(await sessionOf(tx).get(findSnapshot, { tenant, workspace, name }))
  },
  async listSnapshots(tx, tenant, workspace) {
    return (await sessionOf(tx).all(listSnapshots, { tenant, workspace })).map(snapshots.fromRow)
  },
  async layersInUse(tx, tenant) {
    const session = sessionOf(tx)
    return layerSet([
      ...(await session.all(layersOfWorkspaces, { tenant })),
      ...(await session.all(layersOfSnapshots, { tenant })),
    ])
  },
  async lockNode(tx, node) {
    await lockUntilCommit(tx, node)
  },
  async countOnNode(tx, node) {
    return (await sessionOf(tx).get(countOnNode, { node }))?.count ?? 0
  },
  async hostPortsOnNode(tx, node) {
    const rows = await sessionOf(tx).all(forwardsOnNode, { node })
    return new Set(
      rows.flatMap(({ forwards }) => (JSON.parse(forwards) as Workspace['forwards']).map(({ hostPort }) => hostPort)),
    )
  },
  async ownersOnNode(tx, node) {
    const rows = await sessionOf(tx).all(ownersOnNode, { node })
    return rows.map(({ tenant, owner }) => ({ tenant: tenantId(tenant), owner }))
  },
  async workspacesOnNode(tx, node) {
    return (await sessionOf(tx).all(workspacesOnNode, { node })).map(workspaces.fromRow)
  },
  async layersOnNode(tx, node) {
    const session = sessionOf(tx)
    return layerSet([
      ...(await session.all(workspacesOnNode, { node })),
      ...(await session.all(snapshotLayersOnNode, { node })),
    ])
  },
}

const layerSet = (rows: readonly { layers: string }[]): ReadonlySet<string> =>
  new Set(rows.flatMap(({ layers }) => JSON.parse(layers) as string[]))
