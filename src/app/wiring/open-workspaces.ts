import { join } from 'node:path'
import type { Database } from '../../contract/database.ts'
import { limits } from '../../contract/limits.ts'
import type { OwnerDirectory } from '../../contract/owner-directory.ts'
import type { WorkspaceDeps } from '../../domains/workspaces/core.ts'
import { createWorkspaceService, type WorkspaceService } from '../../domains/workspaces/service.ts'
import type { DiskReserve } from '../../stores/files/disk-reserve.ts'
import { createTransferFolder } from '../../stores/files/transfer-folder.ts'
import { sqlWorkspaceStore } from '../../stores/sql/workspace-store.ts'
import { isBootAlive, newBootId } from '../boot-id.ts'
import type { AppDeps } from '../build-app.ts'
import { readMount } from '../read-mount.ts'
import { nodeOf } from '../state-directory.ts'
import { createBackend } from './open-backend.ts'
import type { OwnerWatch } from './open-owner-watch.ts'

export type OpenedWorkspaces = Readonly<{
  service: WorkspaceService
  /** Their dependencies, for the domains that build on them. */
  backendDeps: Pick<WorkspaceDeps, 'backend' | 'owners' | 'node' | 'bootId' | 'isAlive' | 'isReadOnly'>
  /** Settles when crash recovery is done. */
  recovered: Promise<void>
  close(): Promise<void>
}>

/** The workspaces of this machine, with the records in `database` and their storage in `directory`. */
export function openWorkspaces(
  deps: AppDeps,
  { database, directory }: Readonly<{ database: Database; directory: string }>,
  {
    ownerWatch,
    owners,
    reserve,
  }: Readonly<{
    ownerWatch: Pick<OwnerWatch, 'onRevoked' | 'ownerRevoked'>
    owners: OwnerDirectory
    reserve: Pick<DiskReserve, 'keep'> | undefined
  }>,
): OpenedWorkspaces {
  const { config, clock, random, logger, version } = deps
  const bootId = newBootId(random)
  const isAlone = database.kind === 'sqlite'
  const backend = createBackend({ config, directory, version, bootId, logger })
  const backendDeps: OpenedWorkspaces['backendDeps'] = {
    backend,
    owners,
    node: nodeOf(database.kind, directory),
    bootId,
    // The process that opens the embedded store is alone.
    isAlive: (id) => (isAlone ? id === bootId : isBootAlive(id)),
    isReadOnly: config.mode === 'READONLY',
  }
  const service = createWorkspaceService({
    ...backendDeps,
    store: sqlWorkspaceStore,
    database,
    transfers: createTransferFolder(
      config.mode === 'TEST' ? join(directory, 'transfers') : config.workspaces.transfer_dir,
      {
        reserveBytes: config.workspaces.host_reserve_mb * MIB,
        tenantSharePercent: config.workspaces.tenant_share_percent,
        ownerBytesMax: config.workspaces.quota.transfer_mb * MIB,
        ownerNamesMax: limits.transferNamesPerOwnerMax,
        tenantNamesMax: limits.transferNamesPerTenantMax,
      },
    ),
    keepReserve: async () => await reserve?.keep(),
    settings: settingsOf(config.workspaces),
    clock,
    random,
    logger,
  })
  const recovered = service.begin().catch((error) => {
    logger.warn('workspace recovery failed', { cause: String(error) })
  })
  const revocationWatch = watchForRevoked(service, ownerWatch, logger)
  return {
    service,
    backendDeps,
    recovered,
    async close() {
      await recovered
      await revocationWatch.close()
      await backend.close()
    },
  }
}

/** Workspaces end with their owner, whether that is reported or found by polling. */
function watchForRevoked(
  service: Pick<WorkspaceService, 'ownerRevoked' | 'revokedOwners'>,
  ownerWatch: Pick<OwnerWatch, 'onRevoked' | 'ownerRevoked'>,
  logger: AppDeps['logger'],
): Readonly<{ close(): Promise<void> }> {
  const underWay = new Set<Promise<void>>()
  let timer: NodeJS.Timeout | undefined
  let isClosed = false

  function run(work: () => Promise<void>): Promise<void> {
    const running = work()
      .catch((error) => logger.warn('workspaces of revoked keys could not be stopped', { cause: String(error) }))
      .finally(() => underWay.delete(running))
    underWay.add(running)
    return running
  }
  /** Through the watch: a call in progress is cancelled before its workspace is stopped, so nothing else can end it first. */
  async function reconcile(): Promise<void> {
    for (const { tenant, owner } of await service.revokedOwners()) ownerWatch.ownerRevoked(tenant, owner)
  }
  async function reconcilePeriodically(): Promise<void> {
    await run(reconcile)
    if (isClosed) return
    timer = setTimeout(() => void reconcilePeriodically(), limits.revokedOwnersReconcileMs)
    timer.unref()
  }
  const stopListening = ownerWatch.onRevoked((tenant, owner) => void run(() => service.ownerRevoked(tenant, owner)))
  void reconcilePeriodically()
  return {
    async close() {
      isClosed = true
      clearTimeout(timer)
      stopListening()
      await Promise.all(underWay)
    },
  }
}

const MIB = 1024 ** 2

const settingsOf = (input: AppDeps['config']['workspaces']) => ({
  defaultImage: input.default_image,
  defaults: { vcpus: input.default_vcpus, memoryMb: input.default_memory_mb, diskGb: input.default_disk_gb },
  maximum: { vcpus: input.max_vcpus, memoryMb: input.max_memory_mb, diskGb: input.max_disk_gb },
  workspacesMax: input.max_workspaces,
  quota: { workspaces: input.quota.workspaces, memoryMb: input.quota.memory_mb, diskGb: input.quota.disk_gb },
  snapshotsMax: input.max_snapshots_per_workspace,
  allowInternet: input.default_allow_internet,
  concurrentForksMax: input.max_concurrent_forks,
  forwardPorts: { first: input.forward_ports.from, last: input.forward_ports.to },
  mounts: input.mounts.map(readMount),
  transferBytesMax: input.max_transfer_mb * MIB,
})
