import { sha256Hex } from '../kernel/hash.ts'
import { openWorkspaceRecords } from './workspace-records.ts'

/**
 * The quota group of each workspace. Workspaces of one tenant share a group. Each assignment is persisted in a file of its own,
 * so a tenant keeps its group for as long as it has a workspace. store-keeper.pl creates the groups and sets their limits.
 */
export type TenantShares = Readonly<{
  take(id: string, tenant: string | undefined): Promise<number>
  /** Workspaces of earlier versions have the group `NOBODY`. */
  of(id: string): number
  release(id: string): Promise<void>
  workspaceIds(): readonly string[]
}>

/** The number of groups that store-keeper.pl creates. If there are more tenants, some share a group and its limit. */
const GROUPS = 64
/** The group of data without a tenant: that of the probe, and that of earlier versions. */
const NOBODY = 65_535

type Share = Readonly<{ group: number; tenant: string }>
const isGroup = (group: number): boolean => group === NOBODY || (group >= 1 && group <= GROUPS)

export async function createTenantShares(directory: string): Promise<TenantShares> {
  const shares = await openWorkspaceRecords<Share>(directory, {
    write: ({ group, tenant }) => `${group} ${tenant}`,
    read(text) {
      const [group, tenant] = text.split(' ')
      return tenant === undefined || !isGroup(Number(group)) ? undefined : { group: Number(group), tenant }
    },
  })

  /** Includes tenants whose last workspace was removed, because the kernel frees its data later. */
  const groups = new Map<string, number>()
  for (const [, { tenant, group }] of shares.entries()) groups.set(tenant, group)

  function groupOf(tenant: string): number {
    let group = groups.get(tenant)
    if (group === undefined) {
      const used = new Set(groups.values())
      const free = Array.from({ length: GROUPS }, (_, index) => index + 1).find((number) => !used.has(number))
      group = free ?? 1 + (Number.parseInt(tenant.slice(0, 8), 16) % GROUPS)
      groups.set(tenant, group)
    }
    return group
  }

  return {
    async take(id, tenant) {
      const found = shares.get(id)
      if (found !== undefined) return found.group
      const hashed = sha256Hex(tenant ?? '')
      const share = { group: tenant === undefined ? NOBODY : groupOf(hashed), tenant: hashed }
      await shares.put(id, share)
      return share.group
    },
    of: (id) => shares.get(id)?.group ?? NOBODY,
    release: shares.remove,
    workspaceIds: shares.workspaceIds,
  }
}
