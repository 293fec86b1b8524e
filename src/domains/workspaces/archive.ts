import type { Call } from '../../contract/call.ts'
import { limits } from '../../contract/limits.ts'
import type { TenantId } from '../../contract/principal.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'
import { type Core, freedLayers, removeLayers } from './core.ts'
import type { Workspace } from './ports.ts'

/**
 * A workspace of which only the snapshots are left, to be forked. It has no storage and no address, and takes no slot of the
 * node; its disk still counts. Their number per owner and their age are limited, and they are evicted when their space is needed.
 */
export const isArchived = ({ state }: Pick<Workspace, 'state'>): boolean => state === 'archived'

/** To be called after the back end has destroyed the workspace. Idempotent. */
export async function settleArchive(core: Core, call: Pick<Call, 'transact'>, at: Workspace): Promise<void> {
  const { tenant, id, owner } = at
  const { store } = core
  const freed = await call.transact(async (tx) => {
    const found = await store.findWorkspace(tx, tenant, id)
    if (found === undefined || !isArchived(found)) return []
    const unfinished = (await store.listSnapshots(tx, tenant, id)).filter(({ state }) => state === 'creating')
    for (const snapshot of unfinished) await store.deleteSnapshot(tx, tenant, snapshot.id)
    await store.saveWorkspace(tx, tenant, { ...found, operation: null, ip: '', forwards: [] })
    const dropped = await dropOutdated(core, tx, tenant, owner)
    return await freedLayers(core, tx, tenant, [...unfinished.map(({ layerId }) => layerId), ...dropped])
  })
  await removeLayers(core, freed)
}

/** Includes archives of revoked owners, once they have expired. Returns the layers that they used. */
async function dropOutdated(core: Core, tx: WriteTx, tenant: TenantId, owner: string): Promise<readonly string[]> {
  const archived = await archivedHere(core, tx, tenant)
  const own = archived.filter((row) => row.owner === owner)
  const tooMany = new Set(own.slice(0, Math.max(0, own.length - limits.archivedWorkspacesMax)))
  const layers: string[] = []
  for (const row of archived) {
    if (tooMany.has(row) || (await isOutdated(core, tx, row))) layers.push(...(await dropIn(core, tx, row)))
  }
  return layers
}

/** Whether its last snapshot has expired. */
export async function isOutdated({ store, clock }: Core, tx: ReadTx, row: Workspace): Promise<boolean> {
  const last = (await store.listSnapshots(tx, row.tenant, row.id)).at(-1)
  return (last?.createdAtMs ?? row.createdAtMs) + limits.archivedWorkspaceMs < clock.nowMs()
}

/** The owner's archives, oldest first. */
export const archivesOf = async (core: Core, tx: ReadTx, tenant: TenantId, owner: string) =>
  (await archivedHere(core, tx, tenant)).filter((row) => row.owner === owner)

const archivedHere = async ({ store, node }: Core, tx: ReadTx, tenant: TenantId): Promise<Workspace[]> =>
  (await store.listWorkspaces(tx, tenant)).filter(
    (row) => isArchived(row) && row.operation === null && row.node === node,
  )

/** Deletes the rows. Returns the layers that they named; some may still be in use. */
export async function dropIn({ store }: Core, tx: WriteTx, row: Workspace): Promise<readonly string[]> {
  const snapshots = await store.listSnapshots(tx, row.tenant, row.id)
  await store.deleteWorkspace(tx, row.tenant, row.id)
  return [...row.layers, ...snapshots.flatMap(({ layers }) => layers)]
}

/** Marks the archive in a transaction that must not reach the back end; the next recovery removes it. */
export async function discardArchive(core: Core, tx: WriteTx, tenant: TenantId, name: string): Promise<void> {
  const found = await core.store.findWorkspaceByName(tx, tenant, name)
  if (found === undefined || !isArchived(found) || found.operation !== null) return
  await core.store.saveWorkspace(tx, tenant, { ...found, state: 'destroying' })
  core.pendingCleanup.any = true
}
