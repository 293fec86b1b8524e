import type { Call } from '../../contract/call.ts'
import { limits } from '../../contract/limits.ts'
import type { TenantId } from '../../contract/principal.ts'
import type { ReadUnit, WriteUnit } from '../../contract/unit.ts'
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
  const freed = await call.transact(async (unit) => {
    const found = await store.findWorkspace(unit, tenant, id)
    if (found === undefined || !isArchived(found)) return []
    const unfinished = (await store.listSnapshots(unit, tenant, id)).filter(({ state }) => state === 'creating')
    for (const snapshot of unfinished) await store.deleteSnapshot(unit, tenant, snapshot.id)
    await store.saveWorkspace(unit, tenant, { ...found, operation: null, ip: '', forwards: [] })
    const dropped = await dropOutdated(core, unit, tenant, owner)
    return await freedLayers(core, unit, tenant, [...unfinished.map(({ layerId }) => layerId), ...dropped])
  })
  await removeLayers(core, freed)
}

/** Also of owners that are gone, once their time is over. Answers the layers that they lay on. */
async function dropOutdated(core: Core, unit: WriteUnit, tenant: TenantId, owner: string): Promise<readonly string[]> {
  const archived = await archivedHere(core, unit, tenant)
  const own = archived.filter((row) => row.owner === owner)
  const tooMany = new Set(own.slice(0, Math.max(0, own.length - limits.archivedWorkspacesMax)))
  const layers: string[] = []
  for (const row of archived) {
    if (tooMany.has(row) || (await isOutdated(core, unit, row))) layers.push(...(await dropIn(core, unit, row)))
  }
  return layers
}

/** Whether its last snapshot is older than anybody may count on. */
export async function isOutdated({ store, clock }: Core, unit: ReadUnit, row: Workspace): Promise<boolean> {
  const last = (await store.listSnapshots(unit, row.tenant, row.id)).at(-1)
  return (last?.createdAtMs ?? row.createdAtMs) + limits.archivedWorkspaceMs < clock.nowMs()
}

/** The owner's, oldest first. */
export const archivesOf = async (core: Core, unit: ReadUnit, tenant: TenantId, owner: string) =>
  (await archivedHere(core, unit, tenant)).filter((row) => row.owner === owner)

const archivedHere = async ({ store, node }: Core, unit: ReadUnit, tenant: TenantId): Promise<Workspace[]> =>
  (await store.listWorkspaces(unit, tenant)).filter(
    (row) => isArchived(row) && row.operation === null && row.node === node,
  )

/** Takes the rows away. Answers the layers that they named; the others may be in use still. */
export async function dropIn({ store }: Core, unit: WriteUnit, row: Workspace): Promise<readonly string[]> {
  const snapshots = await store.listSnapshots(unit, row.tenant, row.id)
  await store.deleteWorkspace(unit, row.tenant, row.id)
  return [...row.layers, ...snapshots.flatMap(({ layers }) => layers)]
}

/** Marks it, in a transaction that must not reach the back end; the next recovery removes it. */
export async function discardArchive(core: Core, unit: WriteUnit, tenant: TenantId, name: string): Promise<void> {
  const found = await core.store.findWorkspaceByName(unit, tenant, name)
  if (found === undefined || !isArchived(found) || found.operation !== null) return
  await core.store.saveWorkspace(unit, tenant, { ...found, state: 'destroying' })
  core.leftovers.any = true
}
