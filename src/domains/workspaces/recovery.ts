import type { Call } from '../../contract/call.ts'
import type { TenantId } from '../../contract/principal.ts'
import { isArchived, isOutdated, settleArchive } from './archive.ts'
import type { BackendInventory } from './backend.ts'
import { type Core, changeOwn, peersOf, specOf } from './core.ts'
import type { Lifecycle } from './lifecycle.ts'
import type { Workspace } from './ports.ts'
import type { Snapshots } from './snapshots.ts'

/** Followed by the id of the server process and a number. */
const PROBE_PREFIX = 'probe-'

export type Recovery = ReturnType<typeof createRecovery>

/**
 * Reconciles the rows and the back end after a crash.
 *
 * 1. A half-created workspace is removed; a destroy or restore is completed.
 * 2. A workspace that the row calls running and that does not run is marked stopped.
 * 3. Storage and layers that no row names are removed. The back end is read first and the rows after it: a row always exists
 *    before what it names, so nothing that is being created can look abandoned.
 * 4. A workspace that a call of an ended process created for itself is removed: no caller knows of it.
 * 5. What a live server process is changing is left to it. A row that names this process, although no operation here works on
 *    it, was left by an operation whose last write failed.
 */
export function createRecovery(core: Core, parts: Readonly<{ lifecycle: Lifecycle; snapshots: Snapshots }>) {
  const { backend, store, database, logger } = core
  let whole: Promise<void> | undefined
  let isDone = false

  /** Runs once per process, and again when something was left. A failed attempt is repeated by the next caller that needs it. */
  function ensure(): Promise<void> {
    if (core.isReadOnly) return Promise.resolve()
    if (isDone && core.pendingCleanup.any) {
      whole = undefined
      isDone = false
    }
    whole ??= recoverAll().then(
      () => {
        isDone = true
      },
      (error) => {
        whole = undefined
        throw error
      },
    )
    return whole
  }

  async function recoverAll(): Promise<void> {
    core.pendingCleanup.any = false
    const inventory = await backend.inventory()
    const rows = await store.workspacesOnNode(database.read, core.node)
    const layers = await store.layersOnNode(database.read, core.node)
    const known = new Set(rows.map(({ id }) => id))
    const abandoned: string[] = []
    for (const id of new Set([...inventory.stored, ...inventory.running])) {
      if (!known.has(id) && !(await isProbe(id))) abandoned.push(id)
    }
    for (const row of rows) {
      // Callers do not wait for a workspace that is consistent.
      if (!(await isWrong(row, inventory))) continue
      await attempt('workspace recovery failed', row.id, () => recoverLocked(row, inventory))
    }
    for (const id of abandoned) await attempt('abandoned storage could not be removed', id, () => backend.destroy(id))
    for (const layer of inventory.layers.filter((id) => !layers.has(id))) {
      await attempt('abandoned layer could not be removed', layer, () => backend.removeLayer(layer))
    }
  }

  /** Probe workspaces of a live server are in no row, and are removed soon. */
  const isProbe = async (id: string): Promise<boolean> =>
    id.startsWith(PROBE_PREFIX) && (await core.isAlive(id.slice(PROBE_PREFIX.length).replace(/-\d+$/, '')))

  async function attempt(failure: string, id: string, work: () => Promise<unknown>): Promise<void> {
    try {
      await work()
    } catch (error) {
      core.pendingCleanup.any = true
      logger.warn(failure, { id, cause: String(error) })
    }
  }

  /** Whether no process will complete the operation of the row. */
  async function isAbandoned(row: Workspace, hasLock = false): Promise<boolean> {
    const { id, state, operation } = row
    if (operation === core.bootId) return !core.locks.isAtWork(id, hasLock)
    if (operation !== null) return !(await core.isAlive(operation))
    if (await isOrphaned(row)) return true
    if (isArchived(row)) return await isOutdated(core, database.read, row)
    return state !== 'running' && state !== 'stopped'
  }

  const isOrphaned = async ({ boundTo }: Workspace): Promise<boolean> =>
    boundTo !== null && !(await core.isAlive(boundTo))

  async function recoverOne(row: Workspace): Promise<void> {
    if (core.isReadOnly || !(await isAbandoned(row))) return
    await recoverLocked(row, await backend.inventory())
  }

  /** Waits for the operation in progress and reads the row again: if two callers found it abandoned, it is recovered once. */
  async function recoverLocked(row: Workspace, inventory: BackendInventory): Promise<void> {
    await core.locks.exclusive(row, new AbortController().signal, async () => {
      const found = await store.findWorkspace(database.read, row.tenant, row.id)
      if (found !== undefined) await recoverRow(found, inventory)
    })
  }

  async function recoverRow(row: Workspace, inventory: BackendInventory): Promise<void> {
    if (!(await isWrong(row, inventory, true))) return
    // The row may be newer than the inventory; then callers of another server must not find it claimed.
    if (!(await isAbandoned(row, true)) && (await backend.isRunning(row.id)) === (row.state === 'running')) return
    const call = callOf(row.tenant)
    const taken = await takeOver(call, row)
    if (taken === undefined) return
    try {
      await bringToAnEnd(call, taken, await isOrphaned(row))
    } catch (error) {
      await handBack(call, row)
      throw error
    }
  }

  async function isWrong(row: Workspace, { running }: BackendInventory, hasLock = false): Promise<boolean> {
    if (await isAbandoned(row, hasLock)) return true
    return row.operation === null && (row.state === 'running') !== running.includes(row.id)
  }

  /** If two servers start at once, both find the row. Only one claims it, and no other changes it meanwhile. */
  const takeOver = (call: Pick<Call, 'transact'>, row: Workspace): Promise<Workspace | undefined> =>
    call.transact(async (tx) => {
      const found = await store.findWorkspace(tx, row.tenant, row.id)
      if (found === undefined || found.operation !== row.operation || found.state !== row.state) return undefined
      const taken = { ...found, operation: core.bootId }
      await store.saveWorkspace(tx, row.tenant, taken)
      return taken
    })

  const handBack = (call: Pick<Call, 'transact'>, row: Workspace): Promise<void> =>
    call.transact(async (tx) => {
      const found = await store.findWorkspace(tx, row.tenant, row.id)
      if (found === undefined || found.operation !== core.bootId) return
      await store.saveWorkspace(tx, row.tenant, { ...found, operation: row.operation })
    })

  async function bringToAnEnd(call: Pick<Call, 'transact'>, row: Workspace, isOrphaned: boolean): Promise<void> {
    if (row.state === 'creating' || row.state === 'destroying' || isOrphaned) {
      await backend.destroy(row.id)
      await parts.lifecycle.forget(call, row)
    } else if (isArchived(row)) {
      await backend.destroy(row.id)
      await settleArchive(core, call, row)
    } else if (row.state === 'restoring') {
      await parts.snapshots.finishRestore(call, row)
    } else {
      // Waits for requests of an ended process to complete.
      const isRunning = await backend.isRunning(row.id)
      await parts.snapshots.undoUnfinished(call, row)
      await changeOwn(core, call, row, { state: isRunning ? 'running' : 'stopped', operation: null })
      const { resources, network } = specOf(row, await peersOf(core, row))
      await backend.resize(row.id, resources)
      if (!isRunning) return
      await backend.setNetwork(row.id, network)
    }
  }

  const callOf = (tenant: TenantId): Pick<Call, 'transact'> => ({ transact: (work) => database.write(tenant, work) })

  /** Runs in the background at the start of the server, and only if a row says that something may be wrong. */
  async function begin(): Promise<void> {
    const rows = await store.workspacesOnNode(database.read, core.node)
    for (const row of rows) {
      const { state, operation, boundTo } = row
      const isAtRest = state === 'stopped' || (isArchived(row) && !(await isOutdated(core, database.read, row)))
      if (!isAtRest || operation !== null || boundTo !== null) return await ensure()
    }
  }

  return { ensure, isDone: () => (isDone && !core.pendingCleanup.any) || core.isReadOnly, recoverOne, begin }
}
