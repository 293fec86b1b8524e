import type { Call } from '../../contract/call.ts'
import { limits } from '../../contract/limits.ts'
import type { TenantId } from '../../contract/principal.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'
import { type Core, freedLayers, removeLayers } from './core.ts'
import type { Workspace } from './ports.ts'

/**
 * A workspace of which only the snapshots are left, to be forked. It has no storage, no address and no place on the
 * machine; its disk still counts. There are at most so many of one owner, none for ever, and they make room for whatever
 * is wanted in their place.
 */
export const isArchived = ({ state }: Pick<Workspace, 'state'>): boolean => state === 'archived'

/** After the back end has let go of it. May be repeated. */
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

/** Also of owners that are gone, once their time is over. Answers the layers that they lay on. */
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

/** Whether its last snapshot is older than anybody may count on. */
export async function isOutdated({ store, clock }: Core, tx: ReadTx, row: Workspace): Promise<boolean> {
  const last = (await store.listSnapshots(tx, row.tenant, row.id)).at(-1)
  return (last?.createdAtMs ?? row.createdAtMs) + limits.archivedWorkspaceMs < clock.nowMs()
}

/** The owner's, oldest first. */
export const archivesOf = async (core: Core, tx: ReadTx, tenant: TenantId, owner: string) =>
  (await archivedHere(core, tx, tenant)).filter((row) => row.owner === owner)

const archivedHere = async ({ store, node }: Core, tx: ReadTx, tenant: TenantId): Promise<Workspace[]> =>
  (await store.listWorkspaces(tx, tenant)).filter(
    (row) => isArchived(row) && row.operation === null && row.node === node,
  )

/** Takes the rows away. Answers the layers that they named; the others may be in use still. */
export async function dropIn({ store }: Core, tx: WriteTx, row: Workspace): Promise<readonly string[]> {
  const snapshots = await store.listSnapshots(tx, row.tenant, row.id)
  await store.deleteWorkspace(tx, row.tenant, row.id)
  return [...row.layers, ...snapshots.flatMap(({ layers }) => layers)]
}

/** Marks it, in a transaction that must not reach the back end; the next recovery removes it. */
export async function discardArchive(core: Core, tx: WriteTx, tenant: TenantId, name: string): Promise<void> {
  const found = await core.store.findWorkspaceByName(tx, tenant, name)
  if (found === undefined || !isArchived(found) || found.operation !== null) return
  await core.store.saveWorkspace(tx, tenant, { ...found, state: 'destroying' })
  core.pendingCleanup.any = true
}
