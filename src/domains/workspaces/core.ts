import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import type { Database } from '../../contract/database.ts'
import type { OwnerDirectory } from '../../contract/owner-directory.ts'
import { LOCAL_TENANT, type TenantId } from '../../contract/principal.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { Logger } from '../../kernel/logger.ts'
import type { Random } from '../../kernel/random.ts'
import { uuidOf } from '../../kernel/uuid.ts'
import type { CapabilityName, NetworkSpec, PortRange, Resources, WorkspaceBackend, WorkspaceSpec } from './backend.ts'
import type { ImageDefaults } from './image-defaults.ts'
import type { AllowedMount } from './mounts.ts'
import type { TransferFolder, Workspace, WorkspaceStore } from './ports.ts'
import { quoted, type Usage } from './rules.ts'
import type { WorkspaceLocks } from './workspace-locks.ts'

type WorkspaceSettings = Readonly<{
  defaultImage: string
  defaults: Resources
  maximum: Resources
  /** On this node, across all tenants. */
  workspacesMax: number
  /** Per owner. The local owner has no quota. */
  quota: Usage
  snapshotsMax: number
  allowInternet: boolean
  concurrentForksMax: number
  /** Host ports that may be forwarded to workspaces. */
  forwardPorts: PortRange
  /** Host folders that may be mounted. If `tenant` is null, only the local owner may. */
  mounts: readonly AllowedMount[]
  /** Per transferred file. */
  transferBytesMax: number
}>

export type WorkspaceDeps = Readonly<{
  store: WorkspaceStore
  backend: WorkspaceBackend
  /** For work outside a call, such as recovery at the start. */
  database: Pick<Database, 'read' | 'write'>
  owners: OwnerDirectory
  transfers: TransferFolder
  /** Reserves space on the disk of the records, so that workspaces can be destroyed when the disk is full. */
  keepReserve(): Promise<void>
  settings: WorkspaceSettings
  /** The machine and the directory of the back end. Rows of other nodes are left alone. */
  node: string
  /** Identifies this server process in the rows that it is changing. */
  bootId: string
  /** Whether the server process of that id still runs. */
  isAlive(bootId: string): boolean | Promise<boolean>
  /** A read-only server does not recover anything at its start. */
  isReadOnly: boolean
  clock: Clock
  random: Random
  logger: Logger
}>

/** The dependencies of every part of the service. `pendingCleanup` says whether something waits for recovery. */
export type Core = WorkspaceDeps &
  Readonly<{
    locks: WorkspaceLocks
    imageDefaults(workspace: Workspace): Promise<ImageDefaults>
    pendingCleanup: { any: boolean }
  }>

export const newId = ({ random }: Pick<Core, 'random'>): string => uuidOf(random.bytes(16))

export const networkSpec = (workspace: Workspace, peers: readonly string[]): NetworkSpec => ({
  ...workspace.network,
  tenant: workspace.tenant,
  // The credentials belong to the operator, and to no other tenant.
  withCredentials: workspace.tenant === LOCAL_TENANT,
  forwards: workspace.forwards,
  peers,
})

export const specOf = (workspace: Workspace, peers: readonly string[]): WorkspaceSpec => ({
  id: workspace.id,
  // The kernel's limit of a host name.
  hostname: workspace.name.slice(0, 63),
  image: workspace.image,
  layers: workspace.layers,
  resources: { vcpus: workspace.vcpus, memoryMb: workspace.memoryMb, diskGb: workspace.diskGb },
  ip: workspace.ip,
  network: networkSpec(workspace, peers),
  mounts: workspace.mounts,
})

/** The addresses of the other members of its team. */
export async function peersOf({ store, database }: Core, workspace: Workspace): Promise<readonly string[]> {
  if (workspace.team === null) return []
  return (await store.listWorkspaces(database.read, workspace.tenant))
    .filter(({ team, id, ip }) => team === workspace.team && id !== workspace.id && ip !== '')
    .map(({ ip }) => ip)
}

/** The same message whether the workspace is another owner's or does not exist. */
export const notFound = (reference: string): AppError =>
  new AppError(
    'ERR_WORKSPACE_NOT_FOUND',
    `There is no workspace ${quoted(reference)} that you can use; workspace_list shows the ones that you can`,
    { workspace_id: reference.slice(0, 128).toWellFormed() },
  )

export const removedMeanwhile = ({ id, name }: Pick<Workspace, 'id' | 'name'>): AppError =>
  new AppError('ERR_WORKSPACE_STATE', `The workspace ${quoted(name)} was destroyed during the call`, {
    workspace_id: id,
    state: 'destroying',
  })

export const wrongState = ({ id, name, state }: Workspace, needed: string): AppError =>
  new AppError('ERR_WORKSPACE_STATE', `The workspace ${quoted(name)} is ${state}; ${needed}`, {
    workspace_id: id,
    state,
  })

const notSettled = (workspace: Workspace): AppError =>
  wrongState(
    workspace,
    workspace.state === 'archived'
      ? 'only its snapshots are left; fork one with workspace_fork'
      : 'wait until it is done',
  )

/** Refuses a workspace that is being created or destroyed. */
export function requireSettled(workspace: Workspace): void {
  if (workspace.state !== 'running' && workspace.state !== 'stopped') throw notSettled(workspace)
}

export const cancelled = (): AppError => new AppError('ERR_CANCELLED', 'The call was cancelled.')

export function requireNotCancelled(signal: AbortSignal): void {
  if (signal.aborted) throw cancelled()
}

export function requireRunning(workspace: Workspace): void {
  if (workspace.state === 'running') return
  requireSettled(workspace)
  throw notRunning(workspace)
}

const notRunning = ({ id, name }: Workspace): AppError =>
  new AppError('ERR_WORKSPACE_STOPPED', `The workspace ${quoted(name)} is not running; start it with workspace_start`, {
    workspace_id: id,
    state: 'stopped',
  })

/** Refuses, before anything changes, what the back end was not seen to enforce. */
export async function requireCapability({ backend }: Core, name: CapabilityName, what: string): Promise<void> {
  const { available, problem, capabilities } = await backend.capabilities()
  const reason = available ? capabilities[name].reason : (problem ?? 'no back end is available')
  if (available && capabilities[name].enforced) return
  throw new AppError('ERR_CAPABILITY_MISSING', `${what} is not possible on this machine: ${reason}`, {
    capability: name,
    reason,
  })
}

const isOnItsWayOut = ({ state }: Workspace): boolean => state === 'destroying' || state === 'archived'

/**
 * Changes the row of an operation of this process. Undefined if a destroy came first: the row is then deleted or marked, and must
 * not be restored.
 */
export async function changeOwnIn(
  core: Core,
  tx: WriteTx,
  at: Pick<Workspace, 'tenant' | 'id'>,
  change: Partial<Workspace>,
): Promise<Workspace | undefined> {
  const found = await core.store.findWorkspace(tx, at.tenant, at.id)
  if (found === undefined || isOnItsWayOut(found) || found.operation !== core.bootId) return undefined
  const changed = { ...found, ...change }
  await core.store.saveWorkspace(tx, at.tenant, changed)
  return changed
}

export const changeOwn = (
  core: Core,
  call: Pick<Call, 'transact'>,
  at: Pick<Workspace, 'tenant' | 'id'>,
  change: Partial<Workspace>,
): Promise<Workspace | undefined> => call.transact((tx) => changeOwnIn(core, tx, at, change))

/**
 * Ends an operation that has lost its row. A destroy that came first wins, even over what was started since; anything else is
 * left as it is.
 */
export async function giveUp({ store, database, backend }: Core, at: Workspace): Promise<never> {
  const found = await store.findWorkspace(database.read, at.tenant, at.id)
  if (found !== undefined && !isOnItsWayOut(found)) throw wrongState(found, 'another call changed it meanwhile')
  await backend.destroy(at.id)
  throw removedMeanwhile(at)
}

/** Claims the workspace for one operation before the back end acts: after a crash, the row names this process. */
export async function takeIn(
  core: Core,
  tx: WriteTx,
  at: Workspace,
  change: (workspace: Workspace) => Partial<Workspace>,
): Promise<Workspace> {
  const found = await core.store.findWorkspace(tx, at.tenant, at.id)
  if (found === undefined) throw removedMeanwhile(at)
  if (found.state === 'archived') throw notSettled(found)
  if (found.operation !== null || !['running', 'stopped'].includes(found.state)) {
    throw new AppError('ERR_BUSY', `The workspace ${quoted(found.name)} is being changed; call again in a moment`, {
      workspace_id: found.id,
      state: found.state,
      retry_after_ms: 1_000,
    })
  }
  const taken = { ...found, ...change(found), operation: core.bootId }
  await core.store.saveWorkspace(tx, at.tenant, taken)
  return taken
}

/** Those of the given layers that no row of the tenant names any more. To be called in the transaction that released them. */
export async function freedLayers(
  core: Core,
  tx: ReadTx,
  tenant: TenantId,
  candidates: readonly string[],
): Promise<readonly string[]> {
  const used = await core.store.layersInUse(tx, tenant)
  return [...new Set(candidates)].filter((layer) => !used.has(layer))
}

/** To be called after the commit. The next recovery finds what fails here. */
export async function removeLayers(
  { backend, logger, pendingCleanup }: Core,
  layers: readonly string[],
): Promise<void> {
  for (const layer of layers.toReversed()) {
    try {
      await backend.removeLayer(layer)
    } catch (error) {
      pendingCleanup.any = true
      logger.warn('layer could not be removed; will be tried again', { layer, cause: String(error) })
    }
  }
}

/**
 * Runs `work` with shared access to a running workspace. If it turns out to have ended unnoticed, its row becomes `stopped`, so
 * that it can be started again.
 */
export async function sharedWhileRunning<T>(
  core: Core,
  call: Pick<Call, 'signal' | 'transact'>,
  at: Workspace,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  requireRunning(at)
  try {
    return await core.locks.shared(at, call.signal, work)
  } catch (error) {
    throw isOfState(error) && (await enterAsStopped(core, call, at)) ? notRunning(at) : error
  }
}

const isOfState = (error: unknown): boolean =>
  error instanceof AppError && (error.code === 'ERR_WORKSPACE_STATE' || error.code === 'ERR_WORKSPACE_STOPPED')

/**
 * Records a workspace that ended unnoticed as stopped. Returns whether it really does not run and nothing else explains it. The
 * row is claimed meanwhile, so that a concurrent start is not overwritten.
 */
export async function enterAsStopped(core: Core, call: Pick<Call, 'transact'>, at: Workspace): Promise<boolean> {
  if (core.isReadOnly || (await core.backend.inventory()).running.includes(at.id)) return false
  return await core.locks.exclusive(at, new AbortController().signal, async () => {
    const found = await call.transact(async (tx) => {
      const row = await core.store.findWorkspace(tx, at.tenant, at.id)
      if (row?.state !== 'running' || row.operation !== null) return row
      return await takeIn(core, tx, at, () => ({}))
    })
    if (found?.operation !== core.bootId) return found?.state === 'stopped'
    let isRunning = true
    try {
      isRunning = await core.backend.isRunning(at.id)
    } finally {
      await changeOwn(core, call, at, { state: isRunning ? 'running' : 'stopped', operation: null })
    }
    return !isRunning
  })
}
