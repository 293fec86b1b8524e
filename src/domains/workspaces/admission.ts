import { AppError } from '../../contract/app-error.ts'
import type { TenantId } from '../../contract/principal.ts'
import type { WriteTx } from '../../contract/tx.ts'
import { archivesOf, dropIn } from './archive.ts'
import type { Resources } from './backend.ts'
import { type Core, freedLayers } from './core.ts'
import type { Workspace } from './ports.ts'
import { invalid, LOCAL_OWNER, quotaExcess, quoted, slotsFor, type Usage } from './rules.ts'

export type ResourceRequest = Readonly<{
  vcpus?: number | undefined
  memory_mb?: number | undefined
  disk_gb?: number | undefined
}>

/** The requested resources, or the defaults, within the configured maximum of one workspace. */
export function chooseResources({ settings: { defaults, maximum } }: Core, request: ResourceRequest): Resources {
  const choose = (field: keyof ResourceRequest, name: 'vcpus' | 'memoryMb' | 'diskGb'): number => {
    const value = request[field] ?? Math.min(defaults[name], maximum[name])
    if (value > maximum[name])
      throw invalid(field, `at most ${maximum[name]} for one workspace`, { max: maximum[name] })
    return value
  }
  return {
    vcpus: choose('vcpus', 'vcpus'),
    memoryMb: choose('memory_mb', 'memoryMb'),
    diskGb: choose('disk_gb', 'diskGb'),
  }
}

/**
 * Inserts a new workspace if the limits allow it. Everything is counted in the transaction that inserts, so neither a race nor a
 * crash can admit one too many. Returns the layers of evicted archives, to be removed after the commit.
 */
export async function admitWorkspace(core: Core, tx: WriteTx, workspace: Workspace): Promise<readonly string[]> {
  const { store, settings, node } = core
  const { tenant, name } = workspace
  await store.lockNode(tx, node)
  const limit = slotsFor(workspace.owner, settings.workspacesMax)
  const used = await store.countOnNode(tx, node)
  if (used >= limit) {
    throw new AppError(
      'ERR_QUOTA_EXCEEDED',
      `This machine has reached the limit of ${limit} workspaces available to you; destroy one that is not needed`,
      { quota: 'max_workspaces', used, limit },
    )
  }
  const dropped = await makeSpace(core, tx, workspace)
  await requireQuota(core, tx, tenant, workspace.owner, [workspace])
  if ((await store.findWorkspaceByName(tx, tenant, name)) !== undefined) {
    throw new AppError(
      'ERR_ALREADY_EXISTS',
      `name: the name ${quoted(name)} is taken; workspace_list shows the workspaces that are yours. Choose another name`,
      {
        field: 'name',
        name,
      },
    )
  }
  await store.insertWorkspace(tx, tenant, workspace)
  // A layer that the fork itself is based on stays, even if its source was evicted.
  return await freedLayers(core, tx, tenant, dropped)
}

/** Archives are evicted, oldest first, before their owner is refused a workspace. */
async function makeSpace(core: Core, tx: WriteTx, workspace: Workspace): Promise<readonly string[]> {
  const { tenant, owner } = workspace
  if (owner === LOCAL_OWNER) return []
  const layers: string[] = []
  for (const row of await archivesOf(core, tx, tenant, owner)) {
    const used = await core.store.usageOf(tx, tenant, owner)
    if (quotaExcess(used, sumOf([workspace]), core.settings.quota)?.quota !== 'disk_gb') break
    layers.push(...(await dropIn(core, tx, row)))
  }
  return layers
}

/** Refuses resources that exceed the owner's quota in addition to what it has. */
export async function requireQuota(
  core: Core,
  tx: WriteTx,
  tenant: TenantId,
  owner: string,
  added: readonly Workspace[],
): Promise<void> {
  await requireSpaceFor(core, tx, { tenant, owner }, sumOf(added))
}

/** Like `requireQuota`, for growth of an existing workspace. No growth always fits, even above the quota. */
export async function requireSpaceFor(
  core: Core,
  tx: WriteTx,
  { tenant, owner }: Pick<Workspace, 'tenant' | 'owner'>,
  requested: Usage,
): Promise<void> {
  if (owner === LOCAL_OWNER || Object.values(requested).every((amount) => amount <= 0)) return
  const used = await core.store.usageOf(tx, tenant, owner)
  const excess = quotaExcess(used, requested, core.settings.quota)
  if (excess === undefined) return
  const { quota, limit } = excess
  throw new AppError(
    'ERR_QUOTA_EXCEEDED',
    `Your quota of ${quota} is ${limit}: ${excess.used} are in use and ${excess.requested} more are requested; destroy what is not needed`,
    { quota, used: excess.used, wanted: excess.requested, limit },
  )
}

const sumOf = (workspaces: readonly Workspace[]): Usage => ({
  workspaces: workspaces.length,
  memoryMb: workspaces.reduce((sum, { memoryMb }) => sum + memoryMb, 0),
  diskGb: workspaces.reduce((sum, { diskGb }) => sum + diskGb, 0),
})
