import { type BigIntStats, constants } from 'node:fs'
import { type FileHandle, open, opendir, readlink, statfs } from 'node:fs/promises'
import type { AskedPath, ByteString } from './asked-path.ts'
import { fileError, unless } from './file-errors.ts'

/** A handle that only names something: opening it runs no driver, waits for no other end and grants no reading. */
const O_PATH = 0o10000000
const NAME_ONLY = O_PATH | constants.O_NOFOLLOW
export const DIRECTORY_ONLY = NAME_ONLY | constants.O_DIRECTORY

/** Something in the tree, held open. Whatever happens to its name, the handle stays with the thing itself. */
export type InodeHandle = Readonly<{ handle: FileHandle; info: BigIntStats }>

/**
 * The system resolves this from the handle on: one name below a directory that is held, which is what openat does.
 * Nothing above the directory is looked up again, so nobody can put a link in the way. The call that takes it must not
 * follow a link in the last name, and must have ended before the handle is closed: the number in it could be another's.
 */
export const entryPath = (directory: InodeHandle, name: ByteString): Buffer =>
  Buffer.from(`/proc/self/fd/${directory.handle.fd}/${name}`, 'latin1')

/** Like Promise.all, but leaves nothing under way when one fails, so that handles may be closed then. */
export async function allEnded<Result>(work: readonly Promise<Result>[]): Promise<Result[]> {
  await Promise.allSettled(work)
  return Promise.all(work)
}

/** Leads to exactly what the handle names. */
export const selfPath = (inode: InodeHandle): string => `/proc/self/fd/${inode.handle.fd}`

export const isSameInode = (one: Pick<BigIntStats, 'dev' | 'ino'>, other: Pick<BigIntStats, 'dev' | 'ino'>): boolean =>
  one.dev === other.dev && one.ino === other.ino

/** Takes over the handle: it is closed when this fails. */
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

/** The directory above. Where it is now may be elsewhere than where we came from: the caller compares. */
export const openAbove = async (directory: InodeHandle): Promise<InodeHandle> =>
  inodeHandleOf(await open(entryPath(directory, '..'), DIRECTORY_ONLY))

/** Undefined when there is no such entry. A link is opened as a link. */
export async function openEntry(
  directory: InodeHandle,
  name: ByteString,
  asked: AskedPath,
): Promise<InodeHandle | undefined> {
  const handle = await unless(['ENOENT'], open(entryPath(directory, name), NAME_ONLY))
  if (handle === undefined) return undefined
  const inode = await inodeHandleOf(handle)
  try {
    if (inode.info.dev !== directory.info.dev && !inode.info.isSymbolicLink()) await refuseKernelFiles(inode, asked)
    return inode
  } catch (error) {
    await handle.close()
    throw error
  }
}

/** Undefined when it is no link any more. */
export async function readLink(directory: InodeHandle, name: ByteString): Promise<ByteString | undefined> {
  const target = await unless(['EINVAL', 'ENOENT'], readlink(entryPath(directory, name), { encoding: 'buffer' }))
  return target?.toString('latin1')
}

/**
 * File systems whose names lead into the kernel. Links in procfs lead to what processes hold, wherever it is, and
 * files in the others act with the rights of the process that opens them, which here are not those of the workspace.
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

export async function refuseKernelFiles(inode: InodeHandle, asked: AskedPath): Promise<void> {
  const { type } = await statfs(selfPath(inode))
  if (kernelFilesystems.has(type >>> 0)) {
    throw fileError(
      'ERR_FILE_REFUSED',
      asked,
      'leads into a file system of the kernel, such as /proc or /sys; run a command in the workspace to look there',
    )
  }
}

type RawEntry = Readonly<{ name: ByteString; isDirectory: boolean }>

/** The names in a directory as the system gives them, in no order. Ends its reading when the consumer stops early. */
export async function* entriesOf(directory: InodeHandle): AsyncGenerator<RawEntry> {
  // The declared types know only text encodings; names come as buffers.
  const options = { encoding: 'buffer' as BufferEncoding, bufferSize: 256 }
  const reader = await unless(['ENOENT'], opendir(selfPath(directory), options))
  if (reader === undefined) return
  for await (const entry of reader) {
    yield { name: (entry.name as unknown as Buffer).toString('latin1'), isDirectory: entry.isDirectory() }
  }
}
