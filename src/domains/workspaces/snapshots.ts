import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import type { ReadTx } from '../../contract/tx.ts'
import { visibleWorkspaces } from './access.ts'
import { dropIn, isArchived } from './archive.ts'
import {
  type Core,
  changeOwn,
  changeOwnIn,
  freedLayers,
  giveUp,
  newId,
  peersOf,
  removedMeanwhile,
  removeLayers,
  requireCapability,
  requireSettled,
  specOf,
  takeIn,
} from './core.ts'
import type { Snapshot, Workspace } from './ports.ts'
import { checkName, isUuid, quoted } from './rules.ts'

export type Snapshots = ReturnType<typeof createSnapshots>

/** Saved states of a workspace. A layer lives for as long as a workspace or a snapshot uses it. */
export function createSnapshots(core: Core) {
  const { backend, store } = core

  function create(call: Call, at: Workspace, request: Readonly<{ name: string; includeMemory: boolean }>) {
    checkName('name', request.name)
    requireSettled(at)
    return core.locks.exclusive(at, call.signal, async () => {
      if (request.includeMemory) await requireCapability(core, 'memory_snapshot', 'include_memory: keeping memory')
      const { snapshot, workspace } = await plan(call, at, request.name)
      try {
        const { bytes } = await backend.snapshot(workspace.id, snapshot.layerId)
        return await finish(call, workspace, { ...snapshot, bytes, state: 'ready' })
      } catch (error) {
        await undo(call, workspace, snapshot)
        throw error
      }
    })
  }

  async function plan(call: Call, at: Workspace, name: string) {
    const { tenant } = at
    return await call.transact(async (tx) => {
      const workspace = await takeIn(core, tx, at, () => ({}))
      const existing = await store.listSnapshots(tx, tenant, at.id)
      if (existing.some((other) => other.name === name)) {
        throw new AppError(
          'ERR_ALREADY_EXISTS',
          `name: a snapshot ${quoted(name)} already exists; delete it or choose another`,
          {
            field: 'name',
            name,
          },
        )
      }
      const limit = core.settings.snapshotsMax
      if (existing.length >= limit) {
        throw new AppError(
          'ERR_QUOTA_EXCEEDED',
          `The workspace has ${limit} snapshots, which is the limit; delete one that is not needed`,
          {
            quota: 'max_snapshots_per_workspace',
            used: existing.length,
            limit,
          },
        )
      }
      const layerId = newId(core)
      const snapshot: Snapshot = {
        tenant,
        id: newId(core),
        workspaceId: at.id,
        sequence: (existing.at(-1)?.sequence ?? 0) + 1,
        name,
        layerId,
        layers: [...workspace.layers, layerId],
        parentId: workspace.currentSnapshotId,
        bytes: 0,
        hasMemory: false,
        state: 'creating',
        createdAtMs: call.nowMs,
        createdBy: call.principal.actor,
      }
      await store.insertSnapshot(tx, tenant, snapshot)
      return { snapshot, workspace }
    })
  }

  async function finish(call: Call, workspace: Workspace, snapshot: Snapshot): Promise<Snapshot> {
    const done = await call.transact(async (tx) => {
      const retained = await changeOwnIn(core, tx, workspace, { currentSnapshotId: snapshot.id, operation: null })
      if (retained !== undefined) await store.saveSnapshot(tx, workspace.tenant, snapshot)
      return retained
    })
    return done === undefined ? await giveUp(core, workspace) : snapshot
  }

  async function undo(call: Call, workspace: Workspace, { id, layerId }: Snapshot): Promise<void> {
    await call.transact(async (tx) => {
      await store.deleteSnapshot(tx, workspace.tenant, id)
      await changeOwnIn(core, tx, workspace, { operation: null })
    })
    await removeLayers(core, [layerId])
  }

  /** For operations of an ended process. A row that another process has claimed since is left to it. */
  async function undoUnfinished(call: Pick<Call, 'transact'>, row: Workspace): Promise<void> {
    const { tenant, id } = row
    const undone = await call.transact(async (tx) => {
      if ((await store.findWorkspace(tx, tenant, id))?.operation !== row.operation) return []
      const snapshots = await store.listSnapshots(tx, tenant, id)
      const unfinished = snapshots.filter(({ state }) => state === 'creating')
      for (const snapshot of unfinished) await store.deleteSnapshot(tx, tenant, snapshot.id)
      return unfinished.map(({ layerId }) => layerId)
    })
    await removeLayers(core, undone)
  }

  /** By id or name, including an unfinished one. No name has the form of an id. */
  async function lookUp(tx: ReadTx, { tenant, id }: Workspace, reference: string): Promise<Snapshot | undefined> {
    if (!isUuid(reference)) return await store.findSnapshot(tx, tenant, id, reference)
    const lowerReference = reference.toLowerCase()
    return (await store.listSnapshots(tx, tenant, id)).find((snapshot) => snapshot.id === lowerReference)
  }

  async function find(tx: ReadTx, workspace: Workspace, name: string): Promise<Snapshot> {
    const snapshot = await lookUp(tx, workspace, name)
    if (snapshot !== undefined && snapshot.state === 'ready') return snapshot
    throw new AppError(
      'ERR_SNAPSHOT_NOT_FOUND',
      `The workspace ${quoted(workspace.name)} has no snapshot ${quoted(name)}; snapshot with the action list shows them`,
      { workspace_id: workspace.id, name: name.slice(0, 128) },
    )
  }

  /** The intent is recorded first: after a crash, the next start completes the restore. */
  function restore(call: Call, at: Workspace, name: string) {
    requireSettled(at)
    return core.locks.exclusive(at, call.signal, async () => {
      const { taken, target } = await call.transact(async (tx) => {
        const snapshot = await find(tx, at, name)
        const workspace = await takeIn(core, tx, at, (found) => ({
          state: 'restoring',
          desiredState: found.state === 'running' ? 'running' : 'stopped',
          layers: snapshot.layers,
          currentSnapshotId: snapshot.id,
        }))
        return { taken: workspace, target: snapshot }
      })
      try {
        return { ...(await finishRestore(call, taken)), target }
      } catch (error) {
        // The next recovery continues, or the next call that finds the row without an operation of a live process.
        await changeOwn(core, call, taken, { operation: null }).finally(() => {
          core.pendingCleanup.any = true
        })
        throw error
      }
    })
  }

  /** Completes a row in state `restoring`. Idempotent. */
  async function finishRestore(call: Pick<Call, 'transact'>, taken: Workspace) {
    const { tenant, id, desiredState } = taken
    const spec = specOf(taken, await peersOf(core, taken))
    await backend.stop(id, 0)
    await backend.reset(spec)
    if (desiredState === 'running') await backend.start(spec)
    const outcome = await call.transact(async (tx) => {
      const found = await store.findWorkspace(tx, tenant, id)
      if (found === undefined || found.state !== 'restoring') return undefined
      const snapshots = await store.listSnapshots(tx, tenant, id)
      const target = snapshots.find((snapshot) => snapshot.id === found.currentSnapshotId)
      const newer = snapshots.filter((snapshot) => snapshot.sequence > (target?.sequence ?? Number.POSITIVE_INFINITY))
      for (const snapshot of newer) await store.deleteSnapshot(tx, tenant, snapshot.id)
      const restored = { ...found, state: desiredState, operation: null }
      await store.saveWorkspace(tx, tenant, restored)
      const freed = await freedLayers(
        core,
        tx,
        tenant,
        newer.flatMap(({ layers }) => layers),
      )
      return { workspace: restored, removed: newer, freed }
    })
    if (outcome === undefined) return await giveUp(core, taken)
    await removeLayers(core, outcome.freed)
    return outcome
  }

  /** A layer that is in use stays; only the snapshot's name is removed. Its children become children of its parent. */
  function remove(call: Call, at: Workspace, name: string) {
    return core.locks.exclusive(at, call.signal, async () => {
      const { tenant } = at
      const outcome = await call.transact(async (tx) => {
        const target = await find(tx, at, name)
        const workspace = await store.findWorkspace(tx, tenant, at.id)
        if (workspace === undefined) throw removedMeanwhile(at)
        await store.deleteSnapshot(tx, tenant, target.id)
        for (const child of await store.listSnapshots(tx, tenant, at.id)) {
          if (child.parentId === target.id)
            await store.saveSnapshot(tx, tenant, { ...child, parentId: target.parentId })
        }
        if (workspace.currentSnapshotId === target.id) {
          await store.saveWorkspace(tx, tenant, { ...workspace, currentSnapshotId: target.parentId })
        }
        // Without snapshots, nothing of an archived workspace is left.
        const isLast = isArchived(workspace) && (await store.listSnapshots(tx, tenant, at.id)).length === 0
        const alone = isLast ? await dropIn(core, tx, workspace) : []
        const others = (await store.listWorkspaces(tx, tenant)).filter(
          ({ id, layers }) => id !== at.id && layers.includes(target.layerId),
        )
        const seen = (await visibleWorkspaces(core, call, tx)).map((access) => access.workspace.id)
        return {
          target,
          dependents: others.filter(({ id }) => seen.includes(id)),
          dependentCount: others.length,
          freed: await freedLayers(core, tx, tenant, [...target.layers, ...alone]),
        }
      })
      await removeLayers(core, outcome.freed)
      return outcome
    })
  }

  const list = (tx: ReadTx, { tenant, id }: Workspace): Promise<Snapshot[]> => store.listSnapshots(tx, tenant, id)

  return { create, find, lookUp, restore, finishRestore, undoUnfinished, remove, list }
}
