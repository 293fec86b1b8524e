import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import { administers } from '../../contract/permissions.ts'
import type { ReadTx } from '../../contract/tx.ts'
import { type Core, notFound } from './core.ts'
import type { Workspace } from './ports.ts'
import { identityOf, isUuid, quoted } from './rules.ts'

/** A workspace with the caller's relation to it. */
export type Access = Readonly<{ workspace: Workspace; owned: boolean; orphaned: boolean }>

type Looking = Pick<Call, 'principal' | 'nowMs'>

/**
 * Undefined if the caller may not see the workspace. Workspaces of a revoked owner are visible to administrators, and to the
 * identity that replaced that owner.
 */
async function accessOf(core: Core, call: Looking, tx: ReadTx, workspace: Workspace) {
  const { principal } = call
  if (workspace.owner === identityOf(principal)) return { workspace, owned: true, orphaned: false }
  const orphaned = await core.owners.isRevoked(tx, principal.tenant, workspace.owner)
  const isFor =
    administers(principal, 'workspace') || (orphaned && (await core.owners.isSuccessor(tx, principal, workspace.owner)))
  return isFor ? { workspace, owned: false, orphaned } : undefined
}

/** Every workspace that the caller may see, oldest first. */
export async function visibleWorkspaces(core: Core, call: Looking, tx: ReadTx): Promise<readonly Access[]> {
  const found = await core.store.listWorkspaces(tx, call.principal.tenant)
  const accesses = await Promise.all(found.map((workspace) => accessOf(core, call, tx, workspace)))
  return accesses.filter((access) => access !== undefined)
}

/** The workspace of that id or name, if the caller may see it. Touches only the store. */
export async function findVisible(core: Core, call: Looking, tx: ReadTx, reference: string): Promise<Access> {
  const { tenant } = call.principal
  const workspace = isUuid(reference)
    ? await core.store.findWorkspace(tx, tenant, reference.toLowerCase())
    : await core.store.findWorkspaceByName(tx, tenant, reference)
  const access = workspace === undefined ? undefined : await accessOf(core, call, tx, workspace)
  if (access === undefined) throw notFound(reference)
  return access
}

/** Like `findVisible`, if the caller may also use it: an orphaned workspace must be adopted first. */
export async function findUsable(core: Core, call: Looking, tx: ReadTx, reference: string): Promise<Workspace> {
  const { workspace, orphaned } = await findVisible(core, call, tx, reference)
  if (!orphaned) return workspace
  throw new AppError(
    'ERR_WORKSPACE_ORPHANED',
    `The owner of the workspace ${quoted(workspace.name)} was revoked or removed; take it over with workspace_adopt, then call again`,
    { workspace_id: workspace.id, owner: workspace.owner },
  )
}

/** Refuses an operation that only the workspace's own node can carry out. */
export function requireHere(core: Core, workspace: Workspace): void {
  if (workspace.node === core.node) return
  throw new AppError(
    'ERR_CAPABILITY_MISSING',
    `The workspace ${quoted(workspace.name)} is on another machine; call the server that runs there`,
    { workspace_id: workspace.id, node: workspace.node },
  )
}
