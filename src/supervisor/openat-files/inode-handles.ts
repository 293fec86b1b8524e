import { type BigIntStats, constants } from 'node:fs'
import { type FileHandle, open, opendir, readlink, statfs } from 'node:fs/promises'
import { fileError, unless } from './file-errors.ts'
import type { ByteString, RequestedPath } from './requested-path.ts'

/** O_PATH: opening runs no driver, does not block on a FIFO and gives no access to the content. */
const O_PATH = 0o10000000
const NAME_ONLY = O_PATH | constants.O_NOFOLLOW
export const DIRECTORY_ONLY = NAME_ONLY | constants.O_DIRECTORY

/** An inode that is held open. The handle stays with it, even if its name changes. */
export type InodeHandle = Readonly<{ handle: FileHandle; info: BigIntStats }>

/**
 * The equivalent of openat: the kernel resolves one name below a directory that is held open. No directory above is looked up
 * again, so no process can redirect the path with a link. The call that uses it must not follow a link in the last name, and must
 * have ended before the handle is closed: the descriptor number may be reused.
 */
export const entryPath = (directory: InodeHandle, name: ByteString): Buffer =>
  Buffer.from(`/proc/self/fd/${directory.handle.fd}/${name}`, 'latin1')

/** Like Promise.all, but waits for all to settle, so that handles can be closed after a failure. */
export async function allEnded<Result>(work: readonly Promise<Result>[]): Promise<Result[]> {
  await Promise.allSettled(work)
  return Promise.all(work)
}

/** The magic link to the handle's inode. */
export const selfPath = (inode: InodeHandle): string => `/proc/self/fd/${inode.handle.fd}`

export const isSameInode = (one: Pick<BigIntStats, 'dev' | 'ino'>, other: Pick<BigIntStats, 'dev' | 'ino'>): boolean =>
  one.dev === other.dev && one.ino === other.ino

/** Takes over the handle and closes it on failure. */
export async function inodeHandleOf(handle: FileHandle): Promise<InodeHandle> {
  try {
    return { handle, info: await handle.stat({ bigint: true }) }
  } catch (error) {
    await handle.close()
    throw error
  }
}

export const openSame = async (inode: InodeHandle): Promise<InodeHandle> =>
  inodeHandleOf(await open(selfPath(inode), O_PATH | constants.O_DIRECTORY))

/** The parent directory. It may have changed since, so the caller compares it. */
export const openAbove = async (directory: InodeHandle): Promise<InodeHandle> =>
  inodeHandleOf(await open(entryPath(directory, '..'), DIRECTORY_ONLY))

/** Undefined if there is no such entry. A link is opened as a link. */
export async function openEntry(
  directory: InodeHandle,
  name: ByteString,
  requested: RequestedPath,
): Promise<InodeHandle | undefined> {
  const handle = await unless(['ENOENT'], open(entryPath(directory, name), NAME_ONLY))
  if (handle === undefined) return undefined
  const inode = await inodeHandleOf(handle)
  try {
    if (inode.info.dev !== directory.info.dev && !inode.info.isSymbolicLink()) await refuseKernelFiles(inode, requested)
    return inode
  } catch (error) {
    await handle.close()
    throw error
  }
}

/** Undefined if it is no longer a link. */
export async function readLink(directory: InodeHandle, name: ByteString): Promise<ByteString | undefined> {
  const target = await unless(['EINVAL', 'ENOENT'], readlink(entryPath(directory, name), { encoding: 'buffer' }))
  return target?.toString('latin1')
}

/**
 * File systems whose entries lead into the kernel. Links in procfs lead to what processes hold open, wherever that is, and files
 * of the others act with the rights of the process that opens them, which here are not those of the workspace.
 */
const kernelFilesystems: ReadonlySet<number> = new Set([
  0x9fa0, // proc
  0x62656572, // sysfs
  0x27e0eb, // cgroup
  0x63677270, // cgroup2
  0x64626720, // debugfs
  0x74726163, // tracefs
  0x73636673, // securityfs
  0x62656570, // configfs
  0xcafe4a11, // bpf
  0x6e736673, // nsfs
  0x42494e4d, // binfmt_misc
  0x1cd1, // devpts
])

export async function refuseKernelFiles(inode: InodeHandle, requested: RequestedPath): Promise<void> {
  const { type } = await statfs(selfPath(inode))
  if (kernelFilesystems.has(type >>> 0)) {
    throw fileError(
      'ERR_FILE_REFUSED',
      requested,
      'leads into a file system of the kernel, such as /proc or /sys; run a command in the workspace to look there',
    )
  }
}

type RawEntry = Readonly<{ name: ByteString; isDirectory: boolean }>

/** The names in a directory, unsorted. Closes the directory when the consumer stops early. */
export async function* entriesOf(directory: InodeHandle): AsyncGenerator<RawEntry> {
  // The type declarations only allow text encodings; names arrive as buffers.
  const options = { encoding: 'buffer' as BufferEncoding, bufferSize: 256 }
  const reader = await unless(['ENOENT'], opendir(selfPath(directory), options))
  if (reader === undefined) return
  for await (const entry of reader) {
    yield { name: (entry.name as unknown as Buffer).toString('latin1'), isDirectory: entry.isDirectory() }
  }
}
