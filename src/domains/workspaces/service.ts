import type { Call } from '../../contract/call.ts'
import type { TenantId } from '../../contract/principal.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'
import { isoTime } from '../../kernel/clock.ts'
import { counted } from '../../kernel/counted.ts'
import { type Access, findUsable, findVisible, requireHere } from './access.ts'
import { chooseResources, type ResourceRequest } from './admission.ts'
import { type AdoptInput, adopt, handOver } from './adopt.ts'
import { discardArchive } from './archive.ts'
import type { WorkspaceFiles } from './backend.ts'
import {
  type Core,
  notFound,
  removedMeanwhile,
  requireRunning,
  sharedWhileRunning,
  type WorkspaceDeps,
} from './core.ts'
import { type SetEnvInput, setEnv } from './environment.ts'
import { createExec } from './exec.ts'
import { createFiles } from './files.ts'
import { createForks, type ForkInput, type ForkRequest } from './forks.ts'
import { createImageDefaults, createRequireImage } from './image-defaults.ts'
import { createJobs } from './jobs.ts'
import { createLifecycle, type Lifecycle } from './lifecycle.ts'
import { chooseMounts, type MountRequest } from './mounts.ts'
import { checkDomains, createNetwork, requireNetwork } from './network.ts'
import type { NetworkPolicy, Workspace } from './ports.ts'
import { createRecovery, type Recovery } from './recovery.ts'
import { type ResizeInput, resize } from './resize.ts'
import { createRevokedOwners } from './revoked-owners.ts'
import { checkEnv, checkName, identityOf, invalid, reachesOut } from './rules.ts'
import { createRunner } from './run.ts'
import { createSnapshots, type Snapshots } from './snapshots.ts'
import { createViews, resourcesView, snapshotViews } from './views.ts'
import { createWorkspaceLocks } from './workspace-locks.ts'

export type WorkspaceService = ReturnType<typeof createWorkspaceService>

type CreateInput = ResourceRequest &
  Readonly<{
    name?: string | undefined
    base_image?: string | undefined
    allow_internet?: boolean | undefined
    allowed_domains?: readonly string[] | undefined
    mount?: readonly MountRequest[] | undefined
  }>
type CreateRequest = CreateInput &
  Readonly<{ env?: Workspace['env'] | undefined; team?: string | undefined; bound?: boolean | undefined }>
type SnapshotInput = Readonly<{
  workspace_id: string
  action: 'create' | 'restore' | 'list' | 'delete'
  name?: string | undefined
  include_memory?: boolean | undefined
}>

/**
 * Isolated environments. The records decide; the back end carries out. Methods for tools answer in the tools' format; `resolve`,
 * `run`, `open…` and the like are for the domains that build on workspaces.
 */
export function createWorkspaceService(deps: WorkspaceDeps) {
  const core: Core = {
    ...deps,
    locks: createWorkspaceLocks(),
    imageDefaults: createImageDefaults(deps.backend),
    pendingCleanup: { any: false },
  }
  const lifecycle = createLifecycle(core)
  const snapshots = createSnapshots(core)
  const recovery = createRecovery(core, { lifecycle, snapshots })
  const { locate, resolve, resolveAssigned, settle } = createResolve(core, recovery)
  const runner = createRunner(core)
  const forks = createForks(core, { lifecycle, snapshots, resolve })
  const views = createViews(core, settle)
  const lives = createLives(core, { lifecycle, recovery, resolve: locate })

  return {
    create: lives.create,
    destroy: lives.destroy,
    start: lives.start,
    stop: lives.stop,
    ...views,
    ...createExec(core, { resolve, runner }),
    ...createJobs(core, resolve),
    ...createFiles(core, resolve),
    ...createNetwork(core, locate),
    snapshot: createSnapshotTool(snapshots, resolve),
    fork: (call: Call, input: ForkInput) => forks.fork(call, input),
    setEnv: (call: Call, input: SetEnvInput) => setEnv(core, call, input),
    adopt: (call: Call, input: AdoptInput) => adopt(core, call, input),
    resize: (call: Call, input: ResizeInput) => resize(core, call, locate, input),

    /** The workspace of that id or name, if the caller may use it; repaired if a crash left it half done. */
    resolve,
    /** The running workspace of that id or name, if the caller may use it here. Touches only the store. */
    async requireUsable(call: Pick<Call, 'principal' | 'nowMs'>, tx: ReadTx, reference: string) {
      const workspace = await findUsable(core, call, tx, reference)
      requireHere(core, workspace)
      requireRunning(workspace)
      return workspace
    },
    imageDefaults: core.imageDefaults,
    handOver: (call: Call, workspaces: readonly Workspace[]) => handOver(core, call, workspaces),
    /** Runs a program and waits for its end. A time-out is an answer. */
    run: runner.run,
    /** The same as raw bytes. `env` is added to the workspace's own. */
    runRaw: runner.runRaw,
    openFiles(workspace: Workspace, within?: readonly (readonly string[])[]): WorkspaceFiles {
      requireRunning(workspace)
      return core.backend.files(workspace.id, within)
    },
    /** Shared access to the files of a running workspace. */
    withFiles: <T>(
      call: Call,
      workspace: Workspace,
      within: readonly (readonly string[])[],
      work: (files: WorkspaceFiles) => Promise<T>,
    ): Promise<T> => sharedWhileRunning(core, call, workspace, () => work(core.backend.files(workspace.id, within))),
    /** The workspace that was assigned to a principal: the assigning caller had the right to. */
    resolveAssigned: (call: Call, id: string) => resolveAssigned(call, id),
    /** The workspace of that name, if the caller owns it. */
    async findOwn(call: Call, name: string): Promise<Workspace | undefined> {
      const found = await core.store.findWorkspaceByName(call.read, call.principal.tenant, name)
      return found?.owner === identityOf(call.principal) ? found : undefined
    },
    makeWorkspace: lives.make,
    forkWorkspace: (call: Call, source: Workspace, request: ForkRequest) => forks.forkOne(call, source, request),
    /** A workspace that was created `bound` stays even after this server ends. */
    keepWorkspace: (call: Call, workspace: Workspace) => keep(core, call, workspace),
    destroyWorkspace: (call: Pick<Call, 'transact'>, workspace: Workspace) => lifecycle.destroy(call, workspace),
    startWorkspace: (call: Call, workspace: Workspace) => lifecycle.start(call, workspace),
    takeSnapshot: (call: Call, workspace: Workspace, name: string) =>
      snapshots.create(call, workspace, { name, includeMemory: false }),
    findSnapshot: (call: Call, workspace: Workspace, reference: string) =>
      snapshots.lookUp(call.read, workspace, reference),
    /** Whether that snapshot can still be forked. Touches only the store. */
    async hasSnapshot(tx: ReadTx, tenant: TenantId, workspaceId: string, name: string): Promise<boolean> {
      return (await core.store.findSnapshot(tx, tenant, workspaceId, name))?.state === 'ready'
    },
    /** Discards what is retained only for forks. Touches only the store; the back end follows. */
    discardArchive: (tx: WriteTx, tenant: TenantId, name: string) => discardArchive(core, tx, tenant, name),
    /** Refuses a policy that this machine cannot enforce, or that the caller may not give to a workspace. */
    requireNetwork: (call: Call, policy: NetworkPolicy) => requireNetwork(core, call, policy),
    /** At the start of the server; does nothing if nothing can be wrong. */
    begin: () => recovery.begin(),
    ...createRevokedOwners(core, lifecycle),
    /** Reconciles rows and back end, now. */
    recover: () => recovery.ensure(),
  }
}

type Resolve = (call: Call, reference: string) => Promise<Workspace>

function createResolve(core: Core, recovery: Recovery) {
  const isUnsettled = ({ state, operation, boundTo }: Workspace): boolean =>
    operation !== null || boundTo !== null || !['running', 'stopped', 'archived'].includes(state)

  /** Rows are returned unchanged on a machine whose back end cannot be reached. */
  async function settle(call: Call, access: Access): Promise<Access> {
    const { workspace } = access
    if (workspace.node !== core.node || core.isReadOnly) return access
    try {
      await recovery.ensure()
      if (isUnsettled(workspace)) await recovery.recoverOne(workspace)
    } catch (error) {
      core.logger.warn('the state of a workspace is unknown', { id: workspace.id, cause: String(error) })
      return access
    }
    return await findVisible(core, call, call.read, workspace.id)
  }

  const locate: Resolve = async (call, reference) => settled(call, await findUsable(core, call, call.read, reference))

  /** For reading or changing its contents. */
  const resolve: Resolve = async (call, reference) => {
    const found = await locate(call, reference)
    await call.enterWorkspace?.(found.id, reachesOut(found))
    return found
  }

  const resolveAssigned: Resolve = async (call, id) => {
    const found = await core.store.findWorkspace(call.read, call.principal.tenant, id)
    if (found === undefined) throw notFound(id)
    const workspace = await settled(call, found)
    await call.enterWorkspace?.(id, reachesOut(workspace))
    return workspace
  }

  async function settled(call: Call, found: Workspace): Promise<Workspace> {
    requireHere(core, found)
    if (recovery.isDone() && !isUnsettled(found)) return found
    await recovery.ensure()
    if (isUnsettled(found)) await recovery.recoverOne(found)
    const now = await core.store.findWorkspace(call.read, found.tenant, found.id)
    if (now === undefined) throw notFound(found.name)
    return now
  }
  return { locate, resolve, resolveAssigned, settle }
}

type LifeParts = Readonly<{ lifecycle: Lifecycle; recovery: Recovery; resolve: Resolve }>

function createLives(core: Core, { lifecycle, recovery, resolve }: LifeParts) {
  const requireImage = createRequireImage(core.backend)
  async function make(call: Call, request: CreateRequest): Promise<Workspace> {
    if (request.name !== undefined) checkName('name', request.name)
    const image = checkName('base_image', request.base_image ?? core.settings.defaultImage)
    const resources = chooseResources(core, request)
    checkEnv('env', request.env ?? {})
    const allowedDomains = checkDomains(request.allowed_domains ?? [])
    const mounts = chooseMounts(core.settings.mounts, call.principal, request.mount ?? [])
    const network = {
      // A caller that names hosts wants only those.
      allowInternet: request.allow_internet ?? (allowedDomains.length === 0 && core.settings.allowInternet),
      allowInterVm: false,
      allowedPorts: [],
      allowedDomains,
    }
    await recovery.ensure()
    await core.keepReserve()
    await requireNetwork(core, call, network)
    await requireImage(image)
    return await lifecycle.create(call, async () => ({
      name: request.name,
      namePrefix: 'ws',
      image,
      resources,
      network,
      env: request.env ?? {},
      layers: [],
      mounts,
      forkedFrom: null,
      team: request.team ?? null,
      bound: request.bound ?? false,
    }))
  }

  async function create(call: Call, input: CreateInput) {
    const startedMs = core.clock.monotonicMs()
    const workspace = await make(call, input)
    const resources = resourcesView(workspace)
    call.record({
      kind: 'workspace_created',
      body: {
        workspace_id: workspace.id,
        name: workspace.name,
        owner: workspace.owner,
        image: workspace.image,
        ...resources,
      },
    })
    return {
      workspace_id: workspace.id,
      name: workspace.name,
      state: workspace.state,
      ip: workspace.ip,
      boot_time_ms: Math.round(core.clock.monotonicMs() - startedMs),
      from_pool: false,
      base_image: workspace.image,
      resources,
      created_at: isoTime(workspace.createdAtMs),
    }
  }

  async function destroy(call: Call, input: Readonly<{ workspace_id: string; keep_snapshots?: boolean | undefined }>) {
    const workspace = await findUsable(core, call, call.read, input.workspace_id)
    requireHere(core, workspace)
    await lifecycle.destroy(call, workspace, { keepSnapshots: input.keep_snapshots ?? false })
    const retained = await core.store.listSnapshots(core.database.read, workspace.tenant, workspace.id)
    const snapshots_kept = retained.map(({ name }) => name)
    const body = { ...named(workspace), ...(retained.length > 0 && { snapshots_kept }) }
    call.record({ kind: 'workspace_destroyed', body })
    const rest =
      retained.length === 0 ? '' : ` ${counted(retained.length, 'snapshot is', 'snapshots are')} kept for forks.`
    const message = `Workspace ${workspace.name} was destroyed.${rest}`
    return { ...named(workspace), destroyed: true, snapshots_kept, message }
  }

  async function start(call: Call, input: Readonly<{ workspace_id: string }>) {
    const { workspace, changed } = await lifecycle.start(call, await resolve(call, input.workspace_id))
    if (changed) call.record({ kind: 'workspace_started', body: { workspace_id: workspace.id } })
    return {
      ...moved(workspace, changed),
      message: `Workspace ${workspace.name} ${changed ? 'was started' : 'is already running'}.`,
    }
  }

  async function stop(call: Call, input: Readonly<{ workspace_id: string }>) {
    const { workspace, changed } = await lifecycle.stop(call, await resolve(call, input.workspace_id))
    if (changed) call.record({ kind: 'workspace_stopped', body: { workspace_id: workspace.id } })
    return {
      ...moved(workspace, changed),
      message: `Workspace ${workspace.name} ${changed ? 'was stopped' : 'is already stopped'}.`,
    }
  }

  return { make, create, destroy, start, stop }
}

const named = ({ id, name }: Workspace) => ({ workspace_id: id, name })
const moved = (workspace: Workspace, changed: boolean) => ({
  ...named(workspace),
  state: workspace.state,
  ip: workspace.ip,
  changed,
})

function keep({ store }: Core, call: Call, { tenant, id, name }: Workspace): Promise<Workspace> {
  return call.transact(async (tx) => {
    const found = await store.findWorkspace(tx, tenant, id)
    if (found === undefined) throw removedMeanwhile({ id, name })
    const retained = { ...found, boundTo: null }
    await store.saveWorkspace(tx, tenant, retained)
    return retained
  })
}

function createSnapshotTool(snapshots: Snapshots, resolve: Resolve) {
  return async (call: Call, input: SnapshotInput) => {
    const workspace = await resolve(call, input.workspace_id)
    const at = { action: input.action, workspace_id: workspace.id }
    if (input.action === 'list') {
      return {
        ...at,
        snapshots: snapshotViews(await snapshots.list(call.read, workspace), workspace.currentSnapshotId),
      }
    }
    const { name } = input
    if (name === undefined) throw invalid('name', `the action ${input.action} needs it`)
    switch (input.action) {
      case 'create': {
        const made = await snapshots.create(call, workspace, { name, includeMemory: input.include_memory ?? false })
        call.record({
          kind: 'workspace_snapshot_created',
          body: { workspace_id: workspace.id, snapshot_id: made.id, name },
        })
        return {
          ...at,
          snapshot_id: made.id,
          name,
          has_memory: made.hasMemory,
          bytes: made.bytes,
          created_at: isoTime(made.createdAtMs),
        }
      }
      case 'restore': {
        const { workspace: restored, removed, target } = await snapshots.restore(call, workspace, name)
        const names = removed.map((snapshot) => snapshot.name)
        const body = { workspace_id: workspace.id, name: target.name, removed: names }
        call.record({ kind: 'workspace_restored', body })
        const lost =
          names.length === 0 ? '' : ` ${counted(names.length, 'newer snapshot was', 'newer snapshots were')} removed.`
        const message = `Workspace ${workspace.name} is as it was at ${target.name}.${lost}`
        return { ...at, name: target.name, state: restored.state, removed_snapshots: names, message }
      }
      case 'delete': {
        const { dependents, dependentCount, target } = await snapshots.remove(call, workspace, name)
        call.record({ kind: 'workspace_snapshot_deleted', body: { workspace_id: workspace.id, name: target.name } })
        const retained =
          dependentCount === 0
            ? ''
            : ` ${counted(dependentCount, 'fork keeps what it needs', 'forks keep what they need')} of it.`
        return {
          ...at,
          name: target.name,
          dependents: dependents.map(named),
          dependent_count: dependentCount,
          message: `Snapshot ${target.name} was deleted.${retained}`,
        }
      }
    }
  }
}
