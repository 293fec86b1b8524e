import { randomBytes } from 'node:crypto'
import { constants } from 'node:fs'
import { type FileHandle, mkdir, open, readdir, rename, rm, rmdir, statfs } from 'node:fs/promises'
import { isAbsolute, join, relative } from 'node:path'
import type { Readable } from 'node:stream'
import { AppError } from '../../contract/app-error.ts'
import { LOCAL_TENANT, type TenantId } from '../../contract/principal.ts'
import type { TransferFolder } from '../../domains/workspaces/ports.ts'
import { fault } from '../../kernel/fault.ts'
import { createTransferUsage, type Lease, type TransferBounds } from './transfer-usage.ts'

const { O_CREAT, O_DIRECTORY, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_WRONLY } = constants

/** The folder of other tenants' files. The files of the tenant `local` are beside it. */
const TENANTS = '.tenants'
/** Records of the owners of files. */
const OWNERS = '.owners'
/** Files being written. The next process removes those of a killed one. */
const PARTIAL = '.partial'
const OWN_FOLDERS: readonly string[] = [TENANTS, OWNERS, PARTIAL]
const NAMES_MAX = 64
const CHECK_BYTES = 64 * 1024 ** 2

/** Free bytes of a file system, by a path on it. */
type FreeSpaceOf = (path: string) => Promise<number>

/**
 * Every name of a path is opened from the folder that was opened before it, and never through a link: a process that swaps a
 * folder for a link meanwhile is refused or too late.
 */
export function createTransferFolder(
  directory: string,
  bounds: TransferBounds,
  freeSpaceOf: FreeSpaceOf = freeBytes,
): TransferFolder {
  const rootOf = (tenant: TenantId): string => (tenant === LOCAL_TENANT ? directory : join(directory, TENANTS, tenant))
  const usage = createTransferUsage({ folder: join(directory, OWNERS), rootOf, bounds })
  const partial = join(directory, PARTIAL)
  let swept: Promise<void> | undefined

  /** The names on the way to a file inside the tenant's part. */
  function namesOf(tenant: TenantId, path: string): [folders: string[], file: string] {
    const inside = isAbsolute(path) ? relative(rootOf(tenant), path) : path
    const names = inside.split('/').filter((name) => name !== '' && name !== '.')
    const file = names.pop()
    if (file === undefined || names.length >= NAMES_MAX || [...names, file].includes('..')) {
      throw outside(path)
    }
    if (OWN_FOLDERS.includes(names[0] ?? file)) throw outside(path)
    return [names, file]
  }

  /**
   * With `made`, missing folders are created, and the depth of each is recorded there. The caller closes the last folder's
   * handle.
   */
  async function openFolder(tenant: TenantId, folders: readonly string[], path: string, made?: number[]) {
    if (made !== undefined) await mkdir(rootOf(tenant), { recursive: true, mode: 0o700 })
    let folder = await open(rootOf(tenant), O_RDONLY | O_DIRECTORY).catch((error) => {
      throw told(error, path)
    })
    for (const [index, name] of folders.entries()) {
      const at = within(folder, name)
      const outer = folder
      try {
        if (made !== undefined && (await isMade(at))) made.push(index)
        folder = await open(at, O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
      } catch (error) {
        throw told(error, path)
      } finally {
        await outer.close()
      }
    }
    return folder
  }

  /** Removes folders that were created for a file that was not written, unless they are in use by now. */
  async function removeMade(tenant: TenantId, folders: readonly string[], path: string, made: readonly number[]) {
    for (const index of made.toReversed()) {
      const outer = await openFolder(tenant, folders.slice(0, index), path)
      try {
        await rmdir(within(outer, folders[index]!))
      } finally {
        await outer.close()
      }
    }
  }

  return {
    nameOf: (tenant, path) => namesOf(tenant, path).flat().join('/'),

    async read(tenant, path) {
      const [folders, file] = namesOf(tenant, path)
      const folder = await openFolder(tenant, folders, path)
      let handle: FileHandle
      try {
        handle = await open(within(folder, file), O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
      } catch (error) {
        throw told(error, path)
      } finally {
        await folder.close()
      }
      const info = await handle.stat()
      if (!info.isFile()) {
        await handle.close()
        throw refused('ERR_NOT_A_FILE', path, 'is not a regular file')
      }
      return { size: info.size, stream: handle.createReadStream() }
    },

    async write(owner, path, content, signal) {
      const made: number[] = []
      try {
        const [folders, file] = namesOf(owner.tenant, path)
        let lease: Lease | undefined
        let folder: FileHandle | undefined
        try {
          swept ??= sweep(partial)
          await swept
          const free = await freeSpaceOf(partial)
          requireSpace(free, content.size, bounds)
          // Before a folder is created: without space for the file there is none for its folders.
          lease = await usage.lease(owner, [...folders, file], content.size, free)
          folder = await openFolder(owner.tenant, folders, path, made)
          return await replaceFile(folder, file, content, { partial, bounds, lease, freeSpaceOf, signal })
        } catch (error) {
          await removeMade(owner.tenant, folders, path, made).catch(() => {})
          throw told(error, path)
        } finally {
          lease?.release()
          await folder?.close()
        }
      } finally {
        content.stream.destroy()
      }
    },
  }
}

const within = (folder: FileHandle, name: string): string => `/proc/self/fd/${folder.fd}/${name}`

/** A link in the place of the file is replaced, not followed. */
async function replaceFile(
  folder: FileHandle,
  file: string,
  content: Readonly<{ size: number; stream: Readable }>,
  { partial, bounds, lease, freeSpaceOf, signal }: Writing,
): Promise<{ bytes: number }> {
  const temporary = join(partial, `${process.pid}-${randomBytes(6).toString('hex')}`)
  const handle = await open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600)
  let bytes = 0
  try {
    try {
      fault('file.write')
      let checked = 0
      for await (const chunk of content.stream as AsyncIterable<Uint8Array>) {
        requireNotAborted(signal)
        // A file that grows meanwhile exceeds its reservation.
        await lease.require(bytes + chunk.length)
        await handle.writeFile(chunk)
        bytes += chunk.length
        if (bytes - checked < CHECK_BYTES) continue
        checked = bytes
        // So that free space is accurate, and the final sync is short.
        await handle.datasync()
        requireSpace(await freeSpaceOf(partial), 0, bounds)
      }
      await handle.sync()
    } finally {
      await handle.close()
    }
    requireNotAborted(signal)
    await lease.enter()
    fault('file.replace')
    await rename(temporary, within(folder, file))
  } catch (error) {
    await rm(temporary, { force: true })
    throw error
  }
  return { bytes }
}

type Writing = Readonly<{
  partial: string
  bounds: TransferBounds
  lease: Lease
  freeSpaceOf: FreeSpaceOf
  signal: AbortSignal
}>

/** Skips files that a live process is writing. */
async function sweep(partial: string): Promise<void> {
  await mkdir(partial, { recursive: true, mode: 0o700 })
  for (const name of await readdir(partial)) {
    const pid = Number.parseInt(name, 10)
    if (pid === process.pid || !isAlive(pid)) await rm(join(partial, name), { force: true })
  }
}

function isAlive(pid: number): boolean {
  if (!(pid > 0)) return false
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

const freeBytes: FreeSpaceOf = async (path) => {
  const { bavail, bsize } = await statfs(path)
  return bavail * bsize
}

/** The host's own work, including this server's records, needs space beside transferred files. */
function requireSpace(free: number, requested: number, { reserveBytes }: TransferBounds): void {
  if (free - requested >= reserveBytes) return
  throw new AppError(
    'ERR_DISK_FULL',
    `host_path: the disk of the transfer directory has ${free} bytes free, of which ${reserveBytes} must remain; ask the operator to free space`,
    { field: 'host_path', free, wanted: requested },
  )
}

function requireNotAborted(signal: AbortSignal): void {
  if (signal.aborted) throw new AppError('ERR_CANCELLED', 'The call was cancelled.', {})
}

/** False if the name existed already. */
async function isMade(folder: string): Promise<boolean> {
  try {
    await mkdir(folder, { mode: 0o700 })
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    return false
  }
}

type FileCode = 'ERR_FILE_NOT_FOUND' | 'ERR_NOT_A_FILE' | 'ERR_NOT_A_DIRECTORY' | 'ERR_FILE_REFUSED' | 'ERR_DISK_FULL'

const reasons: Readonly<Record<string, readonly [FileCode, string]>> = {
  ENOENT: ['ERR_FILE_NOT_FOUND', 'is not in the transfer directory'],
  ENOTDIR: ['ERR_FILE_REFUSED', 'contains a part that is not a folder; links are not followed'],
  ELOOP: ['ERR_FILE_REFUSED', 'is a link; links are not followed'],
  EISDIR: ['ERR_NOT_A_FILE', 'is a folder'],
  ENOTEMPTY: ['ERR_NOT_A_FILE', 'is a folder'],
  ENXIO: ['ERR_NOT_A_FILE', 'is not a regular file'],
  EACCES: ['ERR_FILE_REFUSED', 'may not be used by the server'],
  EPERM: ['ERR_FILE_REFUSED', 'may not be used by the server'],
  ENAMETOOLONG: ['ERR_FILE_REFUSED', 'is too long a name'],
  EROFS: ['ERR_FILE_REFUSED', 'is on a file system that cannot be written'],
  ENOSPC: ['ERR_DISK_FULL', 'does not fit: the disk is full'],
  EDQUOT: ['ERR_DISK_FULL', 'does not fit: the disk is full'],
}

function told(error: unknown, path: string): unknown {
  const reason = reasons[(error as NodeJS.ErrnoException).code ?? '']
  if (error instanceof AppError || reason === undefined) return error
  return refused(reason[0], path, reason[1])
}

const refused = (code: FileCode, path: string, what: string): AppError =>
  new AppError(code, `host_path: '${path.slice(0, 64).toWellFormed()}' ${what}`, {
    field: 'host_path',
    host_path: path.slice(0, 256).toWellFormed(),
  })

const outside = (path: string): AppError =>
  refused('ERR_FILE_REFUSED', path, 'is not inside the transfer directory; use a path relative to it, without ".."')
