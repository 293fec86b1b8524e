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

/** What is asked for, or the default, within what the configuration allows one workspace. */
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
 * Enters a new workspace in the records if there is room for it. Everything is counted in the transaction that inserts, so
 * no race and no crash can let one in too many. Answers the layers of what had to make room, to be removed after the commit.
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
      `This machine has reached the limit of ${limit} workspaces that is open to you; destroy one that is not needed`,
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
  // A fork lies on what it was made from, though that had to go.
  return await freedLayers(core, tx, tenant, dropped)
}

/** What is only kept for forks goes before its owner is refused a workspace, oldest first. */
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

/** Whether the owner may have these beside what it has. */
export async function requireQuota(
  core: Core,
  tx: WriteTx,
  tenant: TenantId,
  owner: string,
  added: readonly Workspace[],
): Promise<void> {
  await requireSpaceFor(core, tx, { tenant, owner }, sumOf(added))
}

/** The same for more of what it has. What asks for nothing more fits, whatever there is. */
export async function requireSpaceFor(
  core: Core,
  tx: WriteTx,
  { tenant, owner }: Pick<Workspace, 'tenant' | 'owner'>,
  wanted: Usage,
): Promise<void> {
  if (owner === LOCAL_OWNER || Object.values(wanted).every((amount) => amount <= 0)) return
  const used = await core.store.usageOf(tx, tenant, owner)
  const excess = quotaExcess(used, wanted, core.settings.quota)
  if (excess === undefined) return
  const { quota, limit } = excess
  throw new AppError(
    'ERR_QUOTA_EXCEEDED',
    `Your quota of ${quota} is ${limit}: ${excess.used} are in use and ${excess.wanted} more are requested; destroy what is not needed`,
    { quota, used: excess.used, wanted: excess.wanted, limit },
  )
}

const sumOf = (workspaces: readonly Workspace[]): Usage => ({
  workspaces: workspaces.length,
  memoryMb: workspaces.reduce((sum, { memoryMb }) => sum + memoryMb, 0),
  diskGb: workspaces.reduce((sum, { diskGb }) => sum + diskGb, 0),
})
