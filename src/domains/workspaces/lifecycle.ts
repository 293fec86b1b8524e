import type { Call } from '../../contract/call.ts'
import { limits } from '../../contract/limits.ts'
import type { WriteTx } from '../../contract/tx.ts'
import { admitWorkspace } from './admission.ts'
import { settleArchive } from './archive.ts'
import { closedNetwork, type Resources } from './backend.ts'
import {
  type Core,
  changeOwn,
  freedLayers,
  giveUp,
  networkSpec,
  newId,
  peersOf,
  removedMeanwhile,
  removeLayers,
  requireNotCancelled,
  specOf,
  takeIn,
} from './core.ts'
import { requireMounts } from './mounts.ts'
import type { NetworkPolicy, Workspace } from './ports.ts'
import { checkName, checkNotOfPlatform, identityOf } from './rules.ts'

type WorkspacePlan = Readonly<{
  /** By default, a prefix and the beginning of the id. */
  name?: string | undefined
  namePrefix: 'ws' | 'fork'
  image: string
  resources: Resources
  network: NetworkPolicy
  env: Workspace['env']
  layers: readonly string[]
  mounts: Workspace['mounts']
  forkedFrom: Workspace['forkedFrom']
  team: string | null
  /** Removed with this process, unless `keepWorkspace` is called before. */
  bound: boolean
}>

export type Lifecycle = ReturnType<typeof createLifecycle>
type Acting = Pick<Call, 'principal' | 'isOfPlatform' | 'nowMs' | 'signal' | 'transact'>

/**
 * The lifecycle of a workspace. The intent is recorded before the back end acts, and the outcome afterwards; so whenever a crash
 * happens, the next start knows what to undo or to finish.
 */
export function createLifecycle(core: Core) {
  const { backend, store, bootId } = core

  /**
   * `plan` is called in the transaction that inserts the workspace, so what it names cannot be released meanwhile. `enter` is called
   * before that, because others find the workspace from then on.
   */
  function create(
    call: Acting,
    plan: (tx: WriteTx) => Promise<WorkspacePlan>,
    enter?: (id: string) => Promise<void> | undefined,
  ): Promise<Workspace> {
    const id = newId(core)
    return core.locks.making(id, async () => {
      await enter?.(id)
      return await make(call, id, plan)
    })
  }

  async function make(call: Acting, id: string, plan: (tx: WriteTx) => Promise<WorkspacePlan>): Promise<Workspace> {
    const { planned, freed } = await call.transact(async (tx) => {
      const workspace = fromPlan(call, id, await plan(tx))
      return { planned: workspace, freed: await admitWorkspace(core, tx, workspace) }
    })
    await removeLayers(core, freed)
    try {
      return await bringUp(call, planned)
    } catch (error) {
      await undoCreate(call, planned)
      throw error
    }
  }

  function fromPlan(call: Acting, id: string, plan: WorkspacePlan): Workspace {
    const name = checkName('name', plan.name ?? `${plan.namePrefix}-${id.slice(0, 8)}`)
    if (call.isOfPlatform !== true) checkNotOfPlatform('name', name)
    return {
      tenant: call.principal.tenant,
      id,
      name,
      owner: identityOf(call.principal),
      state: 'creating',
      desiredState: 'running',
      image: plan.image,
      ...plan.resources,
      ip: '',
      network: plan.network,
      forwards: [],
      env: plan.env,
      layers: plan.layers,
      mounts: plan.mounts,
      forkedFrom: plan.forkedFrom,
      currentSnapshotId: null,
      node: core.node,
      operation: bootId,
      team: plan.team,
      boundTo: plan.bound ? bootId : null,
      createdAtMs: call.nowMs,
      createdBy: call.principal.actor,
    }
  }

  async function bringUp(call: Acting, planned: Workspace): Promise<Workspace> {
    const peers = await peersOf(core, planned)
    const { ip: _, ...spec } = specOf(planned, peers)
    requireNotCancelled(call.signal)
    const { ip } = await backend.create(spec)
    requireNotCancelled(call.signal)
    await backend.start({ ...spec, ip })
    requireNotCancelled(call.signal)
    const running = await changeOwn(core, call, planned, { state: 'running', ip, operation: null })
    if (running === undefined) throw removedMeanwhile(planned)
    if (running.team !== null) await refreshPeers(running)
    return running
  }

  /** What cannot be undone now is marked, so that a destroy or the next recovery continues. */
  async function undoCreate(call: Acting, planned: Workspace): Promise<void> {
    const { tenant, id } = planned
    try {
      await backend.destroy(id)
      await forget(call, planned)
    } catch (error) {
      core.logger.warn('partly created workspace could not be removed', { id, cause: String(error) })
      await changeOwn(core, call, { tenant, id }, { state: 'destroying', operation: null }).finally(() => {
        core.pendingCleanup.any = true
      })
    }
  }

  /** With `keepSnapshots`, existing snapshots stay for a while, to be forked. */
  async function destroy(
    call: Pick<Call, 'transact'>,
    workspace: Workspace,
    { keepSnapshots = false }: Readonly<{ keepSnapshots?: boolean }> = {},
  ): Promise<void> {
    const { tenant, id } = workspace
    await core.locks.destroy(workspace, async () => {
      const state = await call.transact(async (tx) => {
        const found = await store.findWorkspace(tx, tenant, id)
        if (found === undefined) return undefined
        const retained = keepSnapshots ? await store.listSnapshots(tx, tenant, id) : []
        const next = retained.some((snapshot) => snapshot.state === 'ready') ? 'archived' : 'destroying'
        const team = next === 'archived' ? { team: null, boundTo: null } : {}
        await store.saveWorkspace(tx, tenant, { ...found, ...team, state: next, operation: bootId })
        return next
      })
      if (state === undefined) return
      try {
        await backend.destroy(id)
        if (state === 'archived') return await settleArchive(core, call, workspace)
      } catch (error) {
        if (state === 'archived') {
          // The row still names this process, which no longer works on it: the next recovery continues.
          core.pendingCleanup.any = true
          throw error
        }
        const letGo = call.transact(async (tx) => {
          const found = await store.findWorkspace(tx, tenant, id)
          if (found !== undefined) await store.saveWorkspace(tx, tenant, { ...found, operation: null })
        })
        await letGo.finally(() => {
          core.pendingCleanup.any = true
        })
        throw error
      }
      await forget(call, workspace)
    })
    if (workspace.team !== null) await refreshPeers(workspace)
  }

  /** Deletes the rows, then the layers that only they named. */
  async function forget(call: Pick<Call, 'transact'>, { tenant, id }: Workspace): Promise<void> {
    const freed = await call.transact(async (tx) => {
      const found = await store.findWorkspace(tx, tenant, id)
      if (found === undefined) return []
      const snapshots = await store.listSnapshots(tx, tenant, id)
      await store.deleteWorkspace(tx, tenant, id)
      return await freedLayers(core, tx, tenant, [...found.layers, ...snapshots.flatMap(({ layers }) => layers)])
    })
    await removeLayers(core, freed)
  }

  /** `changed` says whether it had to be started. */
  function start(call: Acting, at: Workspace): Promise<Readonly<{ workspace: Workspace; changed: boolean }>> {
    requireMounts(core.settings.mounts, at.mounts)
    return core.locks.exclusive(at, call.signal, async () => {
      const taken = await call.transact((tx) => takeIn(core, tx, at, () => ({ desiredState: 'running' })))
      const changed = taken.state === 'stopped'
      try {
        // Also started if the row says running: it may have ended unnoticed.
        await backend.start(specOf(taken, await peersOf(core, taken)))
      } catch (error) {
        await changeOwn(core, call, taken, { operation: null, desiredState: 'stopped' })
        throw error
      }
      return { workspace: await settle(call, taken, 'running'), changed }
    })
  }

  /** With `forGood`, forwarded ports are dropped, and the grace period is short. */
  function stop(
    call: Pick<Call, 'signal' | 'transact'>,
    at: Workspace,
    { forGood = false }: Readonly<{ forGood?: boolean }> = {},
  ): Promise<Readonly<{ workspace: Workspace; changed: boolean }>> {
    return core.locks.exclusive(at, call.signal, async () => {
      const change = { desiredState: 'stopped', ...(forGood && { forwards: [] }) } as const
      const taken = await call.transact((tx) => takeIn(core, tx, at, () => change))
      const changed = taken.state === 'running'
      try {
        if (forGood && changed) await backend.setNetwork(taken.id, closedNetwork)
        await backend.stop(taken.id, forGood ? limits.workspaceEndGraceMs : limits.workspaceStopGraceMs)
      } catch (error) {
        await changeOwn(core, call, taken, { operation: null, desiredState: 'running' })
        throw error
      }
      return { workspace: await settle(call, taken, 'stopped'), changed }
    })
  }

  async function settle(call: Pick<Call, 'transact'>, taken: Workspace, state: Workspace['state']): Promise<Workspace> {
    const settled = await changeOwn(core, call, taken, { state, operation: null })
    return settled ?? (await giveUp(core, taken))
  }

  /** Updates the peers of the team's other members after one joined or left. */
  async function refreshPeers({ tenant, team, id }: Workspace): Promise<void> {
    const members = (await store.listWorkspaces(core.database.read, tenant)).filter(
      (other) => other.team === team && other.id !== id && other.state === 'running' && other.node === core.node,
    )
    for (const member of members) {
      try {
        await backend.setNetwork(member.id, networkSpec(member, await peersOf(core, member)))
      } catch (error) {
        core.logger.warn('team member was not told the addresses of the others', {
          id: member.id,
          cause: String(error),
        })
      }
    }
  }

  return { create, destroy, start, stop, forget }
}
