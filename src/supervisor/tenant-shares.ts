import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { sha256Hex } from '../kernel/hash.ts'

/**
 * The quota group of each workspace: one for each tenant. Kept on disk, one file for each workspace, so that a tenant has
 * the same number for as long as it has a workspace. store-keeper.pl makes the groups and sets their bounds.
 */
export type TenantShares = Readonly<{
  take(id: string, tenant: string | undefined): Promise<number>
  /** The group of the workspace; of one from an earlier version, that of nobody in particular. */
  of(id: string): number
  release(id: string): Promise<void>
  /** Every workspace that has one. */
  initProcesses(): readonly string[]
}>

/** As many as store-keeper.pl makes. Of more tenants than that at once, some share a group, and its bound. */
const GROUPS = 64
/** The group of what is of no tenant: what the machine's abilities are tried with, and what earlier versions made. */
const NOBODY = 65_535

type Share = Readonly<{ group: number; tenant: string }>
const isGroup = (group: number): boolean => group === NOBODY || (group >= 1 && group <= GROUPS)

export async function createTenantShares(directory: string): Promise<TenantShares> {
  await mkdir(directory, { recursive: true })
  const shares = new Map<string, Share>()
  for (const id of await readdir(directory)) {
    const [group, tenant] = (await readFile(join(directory, id), 'utf8')).split(' ')
    // One that was being written when we were killed: nothing was made with it.
    if (tenant === undefined || !isGroup(Number(group))) await rm(join(directory, id), { force: true })
    else shares.set(id, { group: Number(group), tenant })
  }

  /** Also of those that have nothing any more: what they had takes a while to go. */
  const groups = new Map<string, number>()
  for (const { tenant, group } of shares.values()) groups.set(tenant, group)

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
      shares.set(id, share)
      try {
        await writeFile(join(directory, id), `${share.group} ${hashed}`)
      } catch (error) {
        shares.delete(id)
        throw error
      }
      return share.group
    },
    of: (id) => shares.get(id)?.group ?? NOBODY,
    async release(id) {
      if (!shares.has(id)) return
      await rm(join(directory, id), { force: true })
      shares.delete(id)
    },
    initProcesses: () => [...shares.keys()],
  }
}
