import { constants } from 'node:fs'
import { chown, type FileHandle, mkdir, open, rename, rmdir, unlink } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { AppError } from '../../contract/app-error.ts'
import type { FileContent, FileInfo, WorkspaceFiles } from '../../domains/workspaces/backend.ts'
import type { Random } from '../../kernel/random.ts'
import { type AskedPath, askPath, type ByteString, textOfBytes } from './asked-path.ts'
import { createBoundary } from './boundary.ts'
import { changedMeanwhile, fileError, namingPath, unless } from './file-errors.ts'
import { entryPath, type InodeHandle, inodeHandleOf, openEntry, refuseKernelFiles, selfPath } from './inode-handles.ts'
import { describe, listDirectory } from './list-directory.ts'
import { removeTree } from './remove-tree.ts'
import { type Walked, type WalkOptions, walk } from './walk.ts'
import { type Owner, writeContent } from './write-content.ts'

export type OpenatFilesDeps = Readonly<{
  /** A handle of the root that only names it (O_PATH and O_DIRECTORY); each call of a method takes one and closes it. */
  openRoot(): Promise<FileHandle>
  /** Whom new files and directories belong to; without it, this process. */
  owner?: Owner | undefined
  /** Where paths may lead, as patterns; every list must allow a place. Without it, anywhere below the root. */
  within?: readonly (readonly string[])[] | undefined
  random: Random
}>

const NEW_DIRECTORY_MODE = 0o755

/**
 * The files below one directory, which processes that are not trusted change at the same time. Nothing outside it is
 * ever read or changed. The umask of this process is taken from the mode of new directories.
 */
export function createOpenatFiles({ openRoot, owner, within, random }: OpenatFilesDeps): WorkspaceFiles {
  const boundary = within === undefined ? undefined : createBoundary(within)
  /** Runs `work` at the end of the path, and closes all that was opened for it. */
  async function at<Result>(asked: AskedPath, options: WalkOptions, work: (walked: Walked) => Promise<Result>) {
    return namingPath(asked, async () => {
      const root = await inodeHandleOf(await openRoot())
      await using _held = root.handle
      await refuseKernelFiles(root, asked)
      await using walked = await walk(root, asked, { ...options, boundary })
      return await work(walked)
    })
  }

  async function make(directory: InodeHandle, name: ByteString, asked: AskedPath): Promise<void> {
    const made = await unless(
      ['EEXIST'],
      mkdir(entryPath(directory, name), NEW_DIRECTORY_MODE).then(() => true),
    )
    if (made !== true || owner === undefined) return
    const inode = await openEntry(directory, name, asked)
    if (inode === undefined) return
    await using _held = inode.handle
    // Only what this process made is given away, should something else stand in its place by now.
    const isOurs = inode.info.isDirectory() && Number(inode.info.uid) === process.geteuid!()
    if (isOurs) await chown(selfPath(inode), owner.uid, owner.gid)
  }

  return {
    async stat(path) {
      const asked = askPath('path', path)
      const follow = () => at(asked, { finalLink: 'follow' }, async (walked) => infoOf(asked, existing(asked, walked)))
      if (asked.wantsDirectory) return follow()
      const found = await at(asked, { finalLink: 'keep' }, async (walked) => infoOf(asked, existing(asked, walked)))
      if (found.kind !== 'symlink') return found
      return follow().catch((error: unknown) => {
        if (error instanceof AppError && error.code === 'ERR_FILE_NOT_FOUND') return found
        throw error
      })
    },

    async list(path, limit) {
      const asked = askPath('path', path)
      checkCount('limit', limit, 1)
      return at(asked, { finalLink: 'follow' }, async (walked) => {
        const directory = existing(asked, walked)
        if (!directory.info.isDirectory()) {
          throw fileError('ERR_NOT_A_DIRECTORY', asked, 'is not a directory; read it as a file, or list its directory')
        }
        return listDirectory(directory, limit)
      })
    },

    async read(path, range) {
      const asked = askPath('path', path)
      if (range !== undefined) {
        checkCount('offset', range.offset, 0)
        checkCount('length', range.length, 0)
      }
      return at(asked, { finalLink: 'follow' }, async (walked) => {
        const file = existing(asked, walked)
        requireRegularFile(asked, file)
        // Waits for nobody, not even for a process that has a lease on the file.
        const handle = await open(selfPath(file), constants.O_RDONLY | constants.O_NONBLOCK)
        return contentOf(handle, range)
      })
    },

    async write(path, content, options = {}) {
      // A source that fails before anybody reads from it must not end the program; the failure is seen when reading.
      if (content instanceof Readable) content.on('error', () => {})
      try {
        const asked = askPath('path', path)
        const mode = checkMode(options.mode)
        return await at(asked, { finalLink: 'follow', make }, async ({ directory, name, entry, wantsDirectory }) => {
          if (entry !== undefined) requireRegularFile(asked, entry)
          if (name === undefined || wantsDirectory) {
            throw fileError('ERR_NOT_A_FILE', asked, 'names a directory; give the path of a file')
          }
          const plan = { random, owner, directory, name, replaced: entry, mode, asked }
          return { bytes: await writeContent(plan, content) }
        })
      } catch (error) {
        if (content instanceof Readable) content.destroy()
        throw error
      }
    },

    async remove(path, options = {}) {
      const asked = askPath('path', path)
      return at(asked, { finalLink: 'keep' }, async (walked) => {
        const { directory, name, entry } = named(asked, walked)
        if (!entry.info.isDirectory()) return unlink(entryPath(directory, name))
        if (options.recursive === true) return removeTree(directory, name, asked)
        const emptied = await unless(
          ['ENOTEMPTY', 'EEXIST'],
          rmdir(entryPath(directory, name)).then(() => true),
        )
        if (emptied !== true) {
          throw fileError('ERR_ALREADY_EXISTS', asked, 'is a directory that is not empty; remove it with recursive set')
        }
      })
    },

    async makeDirectory(path) {
      const asked = askPath('path', path)
      return at(asked, { finalLink: 'follow', make }, async ({ directory, name, entry }) => {
        if (entry !== undefined || name === undefined) {
          if (entry?.info.isDirectory() !== false) return
          throw fileError('ERR_ALREADY_EXISTS', asked, 'exists and is not a directory; choose another name')
        }
        await make(directory, name, asked)
        const made = await openEntry(directory, name, asked)
        await made?.handle.close()
        if (made?.info.isDirectory() !== true) throw changedMeanwhile(asked)
      })
    },

    async rename(from, to) {
      const source = askPath('from', from)
      const target = askPath('to', to)
      return at(source, { finalLink: 'keep' }, async (walked) => {
        const old = named(source, walked)
        return at(target, { finalLink: 'keep' }, async ({ directory, name, wantsDirectory }) => {
          if (name === undefined) throw endsWithoutName(target)
          if (wantsDirectory && !old.entry.info.isDirectory()) {
            throw fileError('ERR_NOT_A_DIRECTORY', target, 'ends like a directory, but what is moved is not one')
          }
          const renaming = rename(entryPath(old.directory, old.name), entryPath(directory, name))
          if (
            (await unless(
              ['EINVAL'],
              renaming.then(() => true),
            )) !== true
          ) {
            throw fileError('ERR_INVALID_INPUT', target, 'is inside what is moved; choose a path outside of it')
          }
        })
      })
    },
  }
}

const infoOf = ({ names }: AskedPath, inode: InodeHandle): FileInfo =>
  describe(textOfBytes(names.at(-1) ?? '/'), inode.info)

function existing(asked: AskedPath, { entry }: Walked): InodeHandle {
  if (entry === undefined) {
    throw fileError('ERR_FILE_NOT_FOUND', asked, 'does not exist; list its directory to see what does')
  }
  return entry
}

/** For changes of an entry in its directory, which need to have one. */
function named(asked: AskedPath, walked: Walked) {
  const { directory, name } = walked
  if (name === undefined) throw endsWithoutName(asked)
  return { directory, name, entry: existing(asked, walked) }
}

const endsWithoutName = (asked: AskedPath): AppError =>
  fileError('ERR_INVALID_INPUT', asked, 'is the root or ends in ..; give a path that ends in a name')

function requireRegularFile(asked: AskedPath, { info }: InodeHandle): void {
  if (info.isDirectory()) throw fileError('ERR_NOT_A_FILE', asked, 'is a directory; give the path of a file')
  if (!info.isFile()) {
    throw fileError(
      'ERR_FILE_REFUSED',
      asked,
      'is a device, a pipe or a socket; only regular files are read or written',
    )
  }
}

function checkCount(field: string, value: number, min: number): void {
  if (Number.isSafeInteger(value) && value >= min) return
  throw new AppError('ERR_INVALID_INPUT', `${field}: must be a whole number from ${min} on`, { field })
}

function checkMode(mode: number | undefined): number | undefined {
  if (mode === undefined || (Number.isInteger(mode) && mode >= 0 && mode <= 0o777)) return mode
  throw new AppError('ERR_INVALID_INPUT', 'mode: must be permission bits from 0 to 0777 octal', { field: 'mode' })
}

/** Takes over the handle; the stream closes it when it ends or is destroyed. Nothing that grows meanwhile is read. */
async function contentOf(
  handle: FileHandle,
  range: Readonly<{ offset: number; length: number }> | undefined,
): Promise<FileContent> {
  let isTransferred = false
  try {
    const { size } = await handle.stat()
    const start = range?.offset ?? 0
    const end = Math.min(size, start + (range?.length ?? size))
    if (start >= end) return { size, stream: Readable.from([]) }
    isTransferred = true
    return { size, stream: handle.createReadStream({ start, end: end - 1 }) }
  } finally {
    if (!isTransferred) await handle.close()
  }
}
