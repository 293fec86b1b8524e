import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Database } from '../../src/contract/database.ts'
import { type TenantId, tenantId } from '../../src/contract/principal.ts'
import type { Snapshot, Workspace } from '../../src/domains/workspaces/ports.ts'
import { sqlWorkspaceStore as store } from '../../src/stores/sql/workspace-store.ts'
import { dialects, openEmpty } from '../support/databases.ts'

const ACME = tenantId('acme')
const OTHER = tenantId('other')
const NOW = 1_767_225_600_000

let count = 0
const workspaceOf = (tenant: TenantId, more: Partial<Workspace> = {}): Workspace => {
  count += 1
  return {
    tenant,
    id: `id-${count}`,
    name: `name-${count}`,
    owner: 'key:k',
    state: 'running',
    desiredState: 'running',
    image: 'host',
    vcpus: 2,
    memoryMb: 512,
    diskGb: 10,
    ip: '10.99.0.2',
    network: { allowInternet: true, allowInterVm: false, allowedPorts: [80], allowedDomains: ['*.a.org'] },
    forwards: [{ hostPort: 2000 + count, guestPort: 80 }],
    env: { A: 'ü', B: '' },
    layers: ['l1', 'l2'],
    mounts: [{ root: '/srv/ü', beneath: '.', target: '/workspace/m', readOnly: true }],
    forkedFrom: { workspaceId: 'w', workspaceName: 'n', snapshotName: 's' },
    currentSnapshotId: 'current',
    node: 'here',
    operation: 'boot',
    team: 'team',
    boundTo: 'boot',
    createdAtMs: NOW + count,
    createdBy: 'ann',
    ...more,
  }
}
const snapshotOf = (workspaceId: string, sequence: number, more: Partial<Snapshot> = {}): Snapshot => ({
  tenant: ACME,
  id: `${workspaceId}-s${sequence}`,
  workspaceId,
  sequence,
  name: `s${sequence}`,
  layerId: `layer-${sequence}`,
  layers: ['l1', `layer-${sequence}`],
  parentId: 'parent',
  bytes: 2 ** 40,
  hasMemory: false,
  state: 'creating',
  createdAtMs: NOW,
  createdBy: 'ann',
  ...more,
})

describe.each(dialects)('workspaces in %s', (dialect) => {
  let database: Database
  beforeEach(async () => {
    database = await openEmpty(dialect)
  })
  afterEach(() => database.close())
  const insert = (workspace: Workspace) =>
    database.write(workspace.tenant, (tx) => store.insertWorkspace(tx, workspace.tenant, workspace))
  const insertSnapshot = (snapshot: Snapshot) => database.write(ACME, (tx) => store.insertSnapshot(tx, ACME, snapshot))

  it('keep every field, set or not', async () => {
    const full = workspaceOf(ACME)
    const bare = workspaceOf(ACME, {
      forkedFrom: null,
      currentSnapshotId: null,
      operation: null,
      team: null,
      boundTo: null,
      layers: [],
      mounts: [],
      forwards: [],
      env: {},
    })
    await insert(full)
    await insert(bare)
    expect(await store.findWorkspace(database.read, ACME, full.id)).toEqual(full)
    expect(await store.findWorkspaceByName(database.read, ACME, bare.name)).toEqual(bare)
    expect(await store.listWorkspaces(database.read, ACME)).toEqual([full, bare])
    const changed: Workspace = {
      ...full,
      ...bare,
      id: full.id,
      mounts: full.mounts,
      name: 'new',
      state: 'stopped',
      desiredState: 'stopped',
      owner: 'owner',
      ip: 'x',
    }
    await database.write(ACME, (tx) => store.saveWorkspace(tx, ACME, changed))
    const retained = {
      image: full.image,
      node: full.node,
      forkedFrom: full.forkedFrom,
      createdAtMs: full.createdAtMs,
      createdBy: full.createdBy,
    }
    expect(await store.findWorkspace(database.read, ACME, full.id)).toEqual({ ...changed, ...retained })
  })

  it('have names that are unique in a tenant, and are nobody else’s', async () => {
    const mine = workspaceOf(ACME, { name: 'same' })
    await insert(mine)
    await expect(insert(workspaceOf(ACME, { name: 'same' }))).rejects.toThrow()
    const theirs = workspaceOf(OTHER, { name: 'same' })
    await insert(theirs)
    expect(await store.findWorkspaceByName(database.read, OTHER, 'same')).toEqual(theirs)
    expect(await store.findWorkspace(database.read, OTHER, mine.id)).toBeUndefined()
    await insertSnapshot(snapshotOf(mine.id, 1))
    expect(await store.listSnapshots(database.read, OTHER, mine.id)).toEqual([])
    expect(await store.findSnapshot(database.read, OTHER, mine.id, 's1')).toBeUndefined()
    await database.write(OTHER, async (tx) => {
      expect(await store.deleteWorkspace(tx, OTHER, mine.id)).toBe(false)
      expect(await store.deleteSnapshot(tx, OTHER, `${mine.id}-s1`)).toBe(false)
      await store.saveWorkspace(tx, OTHER, { ...mine, state: 'stopped' })
    })
    expect(await store.findWorkspace(database.read, ACME, mine.id)).toEqual(mine)
    expect(await store.listSnapshots(database.read, ACME, mine.id)).toHaveLength(1)
    await expect(database.write(OTHER, (tx) => store.deleteWorkspace(tx, ACME, mine.id))).rejects.toThrow()
  })

  it('carry snapshots, which go with them', async () => {
    const workspace = workspaceOf(ACME)
    await insert(workspace)
    const [first, second] = [
      snapshotOf(workspace.id, 1),
      snapshotOf(workspace.id, 2, { parentId: null, hasMemory: true }),
    ]
    await insertSnapshot(second)
    await insertSnapshot(first)
    await expect(insertSnapshot(snapshotOf(workspace.id, 3, { name: 's1' }))).rejects.toThrow()
    expect(await store.listSnapshots(database.read, ACME, workspace.id)).toEqual([first, second])
    const ready: Snapshot = { ...first, state: 'ready', bytes: 7, parentId: null }
    await database.write(ACME, (tx) => store.saveSnapshot(tx, ACME, ready))
    expect(await store.findSnapshot(database.read, ACME, workspace.id, 's1')).toEqual(ready)
    expect(await store.layersInUse(database.read, ACME)).toEqual(new Set(['l1', 'l2', 'layer-1', 'layer-2']))
    expect(await database.write(ACME, (tx) => store.deleteSnapshot(tx, ACME, second.id))).toBe(true)
    expect(await database.write(ACME, (tx) => store.deleteWorkspace(tx, ACME, workspace.id))).toBe(true)
    expect(await store.listSnapshots(database.read, ACME, workspace.id)).toEqual([])
    expect(await store.layersInUse(database.read, ACME)).toEqual(new Set())
  })

  it('are counted for an owner, and for a node over all tenants', async () => {
    await insert(workspaceOf(ACME, { memoryMb: 100, diskGb: 1 }))
    await insert(workspaceOf(ACME, { memoryMb: 200, diskGb: 2, state: 'creating' }))
    await insert(workspaceOf(ACME, { owner: 'owner' }))
    const theirs = workspaceOf(OTHER, { layers: ['theirs'], forwards: [{ hostPort: 9_000, guestPort: 1 }] })
    await insert(theirs)
    await insert(workspaceOf(ACME, { node: 'elsewhere', owner: 'x', layers: ['far'] }))
    expect(await store.usageOf(database.read, ACME, 'key:k')).toEqual({ workspaces: 2, memoryMb: 300, diskGb: 3 })
    expect(await store.usageOf(database.read, ACME, 'nobody')).toEqual({ workspaces: 0, memoryMb: 0, diskGb: 0 })
    await database.write(ACME, (tx) => store.lockNode(tx, 'here'))
    expect(await store.countOnNode(database.read, 'here')).toBe(4)
    expect((await store.workspacesOnNode(database.read, 'here')).map(({ id }) => id)).toContain(theirs.id)
    expect((await store.hostPortsOnNode(database.read, 'here')).has(9_000)).toBe(true)
    expect(await store.layersOnNode(database.read, 'here')).toEqual(new Set(['l1', 'l2', 'theirs']))
    expect(await store.layersOnNode(database.read, 'elsewhere')).toEqual(new Set(['far']))
  })
})
