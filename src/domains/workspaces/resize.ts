import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import { chooseResources, requireSpaceFor } from './admission.ts'
import { type Core, changeOwn, giveUp, requireCapability, requireSettled, specOf, takeIn, wrongState } from './core.ts'
import type { Workspace } from './ports.ts'
import { invalid } from './rules.ts'
import { resourcesView } from './views.ts'

export type ResizeInput = Readonly<{
  workspace_id: string
  vcpus?: number | undefined
  memory_mb?: number | undefined
  disk_gb?: number | undefined
}>

type Size = Pick<Workspace, 'vcpus' | 'memoryMb' | 'diskGb'>
const sizeOf = ({ vcpus, memoryMb, diskGb }: Workspace): Size => ({ vcpus, memoryMb, diskGb })

/** Changes the limits of a workspace, within its owner's quota. They apply to a running workspace at once. */
export async function resize(
  core: Core,
  call: Call,
  resolve: (call: Call, reference: string) => Promise<Workspace>,
  input: ResizeInput,
) {
  if (input.vcpus === undefined && input.memory_mb === undefined && input.disk_gb === undefined)
    throw invalid('memory_mb', 'set memory_mb, vcpus or disk_gb; nothing else can be resized')
  const chosen = chooseResources(core, input)
  const at = await resolve(call, input.workspace_id)
  requireSettled(at)
  return await core.locks.exclusive(at, call.signal, async () => {
    let before = sizeOf(at)
    if (input.disk_gb !== undefined) await requireDiskSize(core, at, input.disk_gb)
    const taken = await call.transact(async (tx) => {
      await core.store.lockNode(tx, core.node)
      const found = (await core.store.findWorkspace(tx, at.tenant, at.id)) ?? at
      before = sizeOf(found)
      const after = {
        vcpus: input.vcpus === undefined ? found.vcpus : chosen.vcpus,
        memoryMb: input.memory_mb === undefined ? found.memoryMb : chosen.memoryMb,
        diskGb: input.disk_gb === undefined ? found.diskGb : chosen.diskGb,
      }
      // The workspace may use more than the new limit, and the kernel would kill processes to reclaim it.
      if (found.state === 'running' && after.memoryMb < found.memoryMb)
        throw wrongState(found, 'stop it to give it less memory')
      await requireSpaceFor(core, tx, found, {
        workspaces: 0,
        memoryMb: after.memoryMb - found.memoryMb,
        diskGb: after.diskGb - found.diskGb,
      })
      return await takeIn(core, tx, at, () => after)
    })
    try {
      // The disk limit applies while nothing runs as well.
      if (taken.state === 'running' || taken.diskGb !== before.diskGb)
        await core.backend.resize(taken.id, specOf(taken, []).resources)
    } catch (error) {
      await changeOwn(core, call, taken, { ...before, operation: null })
      throw error
    }
    const workspace = (await changeOwn(core, call, taken, { operation: null })) ?? (await giveUp(core, taken))
    const resources = resourcesView(workspace)
    call.record({ kind: 'workspace_resized', body: { workspace_id: workspace.id, ...resources } })
    return { workspace_id: workspace.id, name: workspace.name, state: workspace.state, resources }
  })
}

/** Refuses a size that the machine cannot enforce, or that is smaller than the data on the disk. */
async function requireDiskSize(core: Core, workspace: Workspace, diskGb: number): Promise<void> {
  if (diskGb === workspace.diskGb) return
  await requireCapability(core, 'disk_limit', 'Resizing a disk')
  if (diskGb > workspace.diskGb) return
  const { diskUsedBytes } = await core.backend.usage(workspace.id)
  if (diskUsedBytes <= diskGb * GIB) return
  const usedMb = Math.ceil(diskUsedBytes / MIB)
  throw new AppError(
    'ERR_DISK_FULL',
    `disk_gb: ${usedMb} MiB are in use, more than ${diskGb} GiB; remove files first, or set a larger size`,
    { field: 'disk_gb', used_mb: usedMb },
  )
}

const MIB = 1024 ** 2
const GIB = 1024 ** 3
