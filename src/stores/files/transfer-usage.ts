import { lstat, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { AppError } from '../../contract/app-error.ts'
import type { TenantId } from '../../contract/principal.ts'
import type { TransferOwner } from '../../domains/workspaces/ports.ts'
import { fault } from '../../kernel/fault.ts'
import { sha256Hex } from '../../kernel/hash.ts'
import { createKeyedMutex } from '../../kernel/keyed-mutex.ts'

/** The limits of the transfer folder. */
export type TransferBounds = Readonly<{
  /** Space that stays free on the disk. */
  reserveBytes: number
  /** The share of one tenant in the total. */
  tenantSharePercent: number
  /** Total size of one owner's files. */
  ownerBytesMax: number
  /** Number of one owner's names, including folders on the way: an empty file takes space in the file system's tables too. */
  ownerNamesMax: number
  tenantNamesMax: number
}>

/** Space reserved for a file before it is written. */
export type Lease = Readonly<{
  /** Refuses more than the available space. */
  require(bytes: number): Promise<void>
  /** Records the owner of the file, before it is moved into place. */
  enter(): Promise<void>
  release(): void
}>

type TransferUsage = Readonly<{
  lease(owner: TransferOwner, names: readonly string[], bytes: number, free: number): Promise<Lease>
}>

type Held = Readonly<{ bytes: number; names: number }>
type Use = { total: number; tenants: Map<string, Held>; owners: Map<string, Held> }
type Pending = Readonly<{ tenant: string; owner: string; names: number }> & { bytes: number }
const NOTHING: Held = { bytes: 0, names: 0 }

/**
 * The owners of files in the transfer folder: a small file for each, with its path. Files that were removed by hand no longer
 * count. Only files from workspaces are recorded; the operator's own have no owner.
 */
export function createTransferUsage(deps: {
  folder: string
  rootOf(tenant: TenantId): string
  bounds: TransferBounds
}): TransferUsage {
  const { folder, rootOf, bounds } = deps
  const pending = new Set<Pending>()
  /** Two concurrent admissions must not both get the last space. */
  const admissions = createKeyedMutex()

  async function countUse(except: string): Promise<Use> {
    const use: Use = { total: 0, tenants: new Map(), owners: new Map() }
    const add = (tenant: string, owner: string, held: Held): void => {
      use.total += held.bytes
      use.tenants.set(tenant, sum(use.tenants.get(tenant), held))
      use.owners.set(`${tenant}/${owner}`, sum(use.owners.get(`${tenant}/${owner}`), held))
    }
    for (const tenant of await namesIn(folder)) {
      for (const owner of await namesIn(join(folder, tenant))) {
        for (const record of await namesIn(join(folder, tenant, owner))) {
          if (`${tenant}/${record}` === except) continue
          add(tenant, owner, await heldBy(tenant as TenantId, join(folder, tenant, owner, record)))
        }
      }
    }
    for (const one of pending) add(one.tenant, one.owner, one)
    return use
  }

  async function heldBy(tenant: TenantId, record: string): Promise<Held> {
    try {
      const path = await readFile(record, 'utf8')
      const { size, blocks } = await lstat(join(rootOf(tenant), path))
      return { bytes: Math.max(size, blocks * 512), names: path.split('/').length }
    } catch {
      await rm(record, { force: true })
      return NOTHING
    }
  }

  async function admit(at: Pending, except: string, requested: number, free: number): Promise<void> {
    const use = await countUse(except)
    const { bytes: owned, names: ownNames } = use.owners.get(`${at.tenant}/${at.owner}`) ?? NOTHING
    if (owned + requested > bounds.ownerBytesMax) {
      throw overQuota('transfer_mb', 'Your files in the transfer directory', owned, requested, bounds.ownerBytesMax)
    }
    const { bytes: ofTenant, names: namesOfTenant } = use.tenants.get(at.tenant) ?? NOTHING
    const names = pending.has(at) ? 0 : at.names
    if (ownNames + names > bounds.ownerNamesMax) throw tooManyNames('Your files', ownNames, names, bounds.ownerNamesMax)
    if (namesOfTenant + names > bounds.tenantNamesMax) {
      throw tooManyNames("Your tenant's files", namesOfTenant, names, bounds.tenantNamesMax)
    }
    const whole = Math.max(0, use.total + free - bounds.reserveBytes)
    const share = Math.floor((whole * bounds.tenantSharePercent) / 100)
    if (ofTenant + requested > share) {
      throw overQuota(
        'tenant_share_percent',
        "Your tenant's files in the transfer directory",
        ofTenant,
        requested,
        share,
      )
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
      const at: Pending = { tenant, owner: owner === null ? '' : sha256Hex(owner), names: names.length, bytes: 0 }
      const require = (requested: number): Promise<void> =>
        admissions.withLock(folder, async () => {
          if (owner === null || (requested <= at.bytes && pending.has(at))) return
          await admit(at, `${tenant}/${name}`, requested - at.bytes, free)
          at.bytes = requested
          pending.add(at)
        })
      await require(bytes)
      return { require, enter: () => enter(at, name, path), release: () => void pending.delete(at) }
    },
  }
}

const sum = (one = NOTHING, other: Held): Held => ({ bytes: one.bytes + other.bytes, names: one.names + other.names })

const namesIn = (folder: string): Promise<string[]> =>
  readdir(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return []
    throw error
  })

const overQuota = (quota: string, what: string, used: number, requested: number, limit: number): AppError =>
  new AppError(
    'ERR_QUOTA_EXCEEDED',
    `host_path: the limit for ${what} is ${limit} bytes: ${used} are in use and ${requested} more are requested; ask the operator to remove what is not needed`,
    { field: 'host_path', quota, used, wanted: requested, limit },
  )

const tooManyNames = (what: string, used: number, requested: number, limit: number): AppError =>
  new AppError(
    'ERR_QUOTA_EXCEEDED',
    `host_path: ${what} in the transfer directory, and the folders on the way to each, may have ${limit} names together: ${used} are in use and ${requested} more are requested; put several into one archive, or ask the operator to remove what is not needed`,
    { field: 'host_path', quota: 'transfer_names', used, wanted: requested, limit },
  )
