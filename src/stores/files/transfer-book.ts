import { lstat, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { AppError } from '../../contract/app-error.ts'
import type { TenantId } from '../../contract/principal.ts'
import type { TransferOwner } from '../../domains/workspaces/ports.ts'
import { fault } from '../../kernel/fault.ts'
import { sha256Hex } from '../../kernel/hash.ts'

/** What may be in the transfer folder. */
export type TransferBounds = Readonly<{
  /** Of the disk, what stays free. */
  reserveBytes: number
  /** How much of what all may have one tenant may take. */
  tenantSharePercent: number
  /** Of the files of one owner together. */
  ownerBytesMax: number
}>

/** Room that a file was given before it is written. */
export type Lease = Readonly<{
  /** Refuses more than there is room for. */
  require(bytes: number): Promise<void>
  /** Enters whose file it is, before it takes its place. */
  enter(): Promise<void>
  release(): void
}>

export type TransferBook = Readonly<{
  lease(owner: TransferOwner, names: readonly string[], bytes: number, free: number): Promise<Lease>
}>

type Use = { total: number; tenants: Map<string, number>; owners: Map<string, number> }
type Pending = Readonly<{ tenant: string; owner: string }> & { bytes: number }

/**
 * Whose the files in the transfer folder are: a small file for each, which says where it is. What somebody removed by hand
 * no longer counts. Only what came out of workspaces is in the book; what the operator puts there is nobody's.
 */
export function createTransferBook(deps: {
  folder: string
  rootOf(tenant: TenantId): string
  bounds: TransferBounds
}): TransferBook {
  const { folder, rootOf, bounds } = deps
  const pending = new Set<Pending>()
  let last: Promise<unknown> = Promise.resolve()
  /** Two that are admitted at once must not both be given the last room. */
  const inTurn = <T>(work: () => Promise<T>): Promise<T> => {
    const next = last.then(work, work)
    last = next.catch(() => {})
    return next
  }

  async function countUse(except: string): Promise<Use> {
    const use: Use = { total: 0, tenants: new Map(), owners: new Map() }
    const add = (tenant: string, owner: string, bytes: number): void => {
      use.total += bytes
      use.tenants.set(tenant, (use.tenants.get(tenant) ?? 0) + bytes)
      use.owners.set(`${tenant}/${owner}`, (use.owners.get(`${tenant}/${owner}`) ?? 0) + bytes)
    }
    for (const tenant of await namesIn(folder)) {
      for (const owner of await namesIn(join(folder, tenant))) {
        for (const record of await namesIn(join(folder, tenant, owner))) {
          if (`${tenant}/${record}` === except) continue
          add(tenant, owner, await sizeOf(tenant as TenantId, join(folder, tenant, owner, record)))
        }
      }
    }
    for (const { tenant, owner, bytes } of pending) add(tenant, owner, bytes)
    return use
  }

  async function sizeOf(tenant: TenantId, record: string): Promise<number> {
    try {
      const { size, blocks } = await lstat(join(rootOf(tenant), await readFile(record, 'utf8')))
      return Math.max(size, blocks * 512)
    } catch {
      await rm(record, { force: true })
      return 0
    }
  }

  async function admit(at: Pending, except: string, wanted: number, free: number): Promise<void> {
    const use = await countUse(except)
    const owned = use.owners.get(`${at.tenant}/${at.owner}`) ?? 0
    if (owned + wanted > bounds.ownerBytesMax) {
      throw overQuota('transfer_mb', 'Your files in the transfer directory', owned, wanted, bounds.ownerBytesMax)
    }
    const ofTenant = use.tenants.get(at.tenant) ?? 0
    const whole = Math.max(0, use.total + free - bounds.reserveBytes)
    const share = Math.floor((whole * bounds.tenantSharePercent) / 100)
    if (ofTenant + wanted > share) {
      throw overQuota('tenant_share_percent', "Your tenant's files in the transfer directory", ofTenant, wanted, share)
    }
  }

  async function enter({ tenant, owner }: Pending, name: string, path: string): Promise<void> {
    for (const other of await namesIn(join(folder, tenant))) {
      if (other !== owner) await rm(join(folder, tenant, other, name), { force: true })
    }
    if (owner === '') return
    await mkdir(join(folder, tenant, owner), { recursive: true, mode: 0o700 })
    fault('file.write')
    await writeFile(join(folder, tenant, owner, name), path, { mode: 0o600 })
  }

  return {
    async lease({ tenant, owner }, names, bytes, free) {
      const path = names.join('/')
      const name = sha256Hex(path)
      const at: Pending = { tenant, owner: owner === null ? '' : sha256Hex(owner), bytes: 0 }
      const require = (wanted: number): Promise<void> =>
        inTurn(async () => {
          if (owner === null || wanted <= at.bytes) return
          await admit(at, `${tenant}/${name}`, wanted - at.bytes, free)
          at.bytes = wanted
          pending.add(at)
        })
      await require(bytes)
      return { require, enter: () => enter(at, name, path), release: () => void pending.delete(at) }
    },
  }
}

const namesIn = (folder: string): Promise<string[]> =>
  readdir(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return []
    throw error
  })

const overQuota = (quota: string, what: string, used: number, wanted: number, limit: number): AppError =>
  new AppError(
    'ERR_QUOTA_EXCEEDED',
    `host_path: ${what} may have ${limit} bytes together: ${used} are there and ${wanted} more are wanted; have the operator remove what is not needed`,
    { field: 'host_path', quota, used, wanted, limit },
  )
