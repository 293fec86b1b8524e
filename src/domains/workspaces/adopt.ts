import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import { type Access, findVisible, visibleWorkspaces } from './access.ts'
import { requireQuota } from './admission.ts'
import { isArchived } from './archive.ts'
import type { Core } from './core.ts'
import type { Workspace } from './ports.ts'
import { identityOf, quoted, type WorkspaceState } from './rules.ts'

export type AdoptInput = Readonly<{ workspace_id?: string | undefined; force?: boolean | undefined }>

type Adopted = Readonly<{ workspace_id: string; name: string; state: WorkspaceState; ip: string; forced: boolean }>

/** Makes the caller the owner of orphaned workspaces. The quota is checked before each change. */
export async function adopt(core: Core, call: Call, input: AdoptInput) {
  if (input.workspace_id !== undefined) {
    const access = await findVisible(core, call, call.read, input.workspace_id)
    const one = await adoptOne(core, call, access, input.force ?? false)
    return { ...one, adopted: true as const, adopted_count: 1, error_count: 0, errors: [] }
  }
  const adopted: Adopted[] = []
  const errors: Readonly<{ workspace_id: string; error: string }>[] = []
  for (const access of await visibleWorkspaces(core, call, call.read)) {
    if (!access.orphaned || isArchived(access.workspace)) continue
    try {
      adopted.push(await adoptOne(core, call, access, false))
    } catch (error) {
      if (!(error instanceof AppError) || error.code !== 'ERR_QUOTA_EXCEEDED') throw error
      errors.push({ workspace_id: access.workspace.id, error: error.message })
    }
  }
  return { adopted_count: adopted.length, adopted, error_count: errors.length, errors }
}

async function adoptOne(core: Core, call: Call, access: Access, force: boolean): Promise<Adopted> {
  const { workspace, owned, orphaned } = access
  const forced = !owned && !orphaned
  if (forced && !force) {
    throw new AppError(
      'ERR_WORKSPACE_STATE',
      `The workspace ${quoted(workspace.name)} belongs to ${quoted(workspace.owner)}, who is still active; set force to take it over anyway`,
      { workspace_id: workspace.id, owner: workspace.owner },
    )
  }
  if (!owned) {
    await handOver(core, call, [workspace])
  }
  return { workspace_id: workspace.id, name: workspace.name, state: workspace.state, ip: workspace.ip, forced }
}

/** All workspaces become the caller's, or none: its quota is checked first. */
export async function handOver(core: Core, call: Call, workspaces: readonly Workspace[]): Promise<void> {
  const owner = identityOf(call.principal)
  await requireQuota(core, call.write, call.principal.tenant, owner, workspaces)
  for (const workspace of workspaces) {
    await core.store.saveWorkspace(call.write, workspace.tenant, { ...workspace, owner })
    const body = { workspace_id: workspace.id, name: workspace.name, owner, previous_owner: workspace.owner }
    call.record({ kind: 'workspace_adopted', body })
  }
}
