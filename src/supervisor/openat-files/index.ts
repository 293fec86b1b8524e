import { constants } from 'node:fs'
import { chown, type FileHandle, mkdir, open, rename, rmdir, unlink } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { AppError } from '../../contract/app-error.ts'
import type { FileContent, FileInfo, WorkspaceFiles } from '../../domains/workspaces/backend.ts'
import type { Random } from '../../kernel/random.ts'
import { createBoundary } from './boundary.ts'
import { changedMeanwhile, fileError, namingPath, unless } from './file-errors.ts'
import { entryPath, type InodeHandle, inodeHandleOf, openEntry, refuseKernelFiles, selfPath } from './inode-handles.ts'
import { describe, listDirectory } from './list-directory.ts'
import { removeTree } from './remove-tree.ts'
import { askPath, type ByteString, type RequestedPath, textOfBytes } from './requested-path.ts'
import { type Walked, type WalkOptions, walk } from './walk.ts'
import { type Owner, writeContent } from './write-content.ts'

export type OpenatFilesDeps = Readonly<{
  /** Opens the root with O_PATH and O_DIRECTORY. Each method call opens one handle and closes it. */
  openRoot(): Promise<FileHandle>
  /** The owner of new files and directories; by default this process. */
  owner?: Owner | undefined
  /** Patterns of allowed paths; every list must allow a path. Without it, any path below the root. */
  within?: readonly (readonly string[])[] | undefined
  random: Random
}>

const NEW_DIRECTORY_MODE = 0o755

/**
 * The files below one directory, which untrusted processes change at the same time. Nothing outside it is ever read or changed.
 * The umask of this process applies to new directories.
 */
export function createOpenatFiles({ openRoot, owner, within, random }: OpenatFilesDeps): WorkspaceFiles {
  const boundary = within === undefined ? undefined : createBoundary(within)
  /** Runs `work` at the end of the path, and closes all handles afterwards. */
  async function at<Result>(requested: RequestedPath, options: WalkOptions, work: (walked: Walked) => Promise<Result>) {
    return namingPath(requested, async () => {
      const root = await inodeHandleOf(await openRoot())
      await using _held = root.handle
      await refuseKernelFiles(root, requested)
      await using walked = await walk(root, requested, { ...options, boundary })
      return await work(walked)
    })
  }

  async function make(directory: InodeHandle, name: ByteString, requested: RequestedPath): Promise<void> {
    const made = await unless(
      ['EEXIST'],
      mkdir(entryPath(directory, name), NEW_DIRECTORY_MODE).then(() => true),
    )
    if (made !== true || owner === undefined) return
    const inode = await openEntry(directory, name, requested)
    if (inode === undefined) return
    await using _held = inode.handle
    // Changes the owner only of what this process created: something else may have taken its place.
    const isOurs = inode.info.isDirectory() && Number(inode.info.uid) === process.geteuid!()
    if (isOurs) await chown(selfPath(inode), owner.uid, owner.gid)
  }

  return {
    async stat(path) {
      const requested = askPath('path', path)
      const follow = () =>
        at(requested, { finalLink: 'follow' }, async (walked) => infoOf(requested, existing(requested, walked)))
      if (requested.wantsDirectory) return follow()
      const found = await at(requested, { finalLink: 'keep' }, async (walked) =>
        infoOf(requested, existing(requested, walked)),
      )
      if (found.kind !== 'symlink') return found
      return follow().catch((error: unknown) => {
        if (error instanceof AppError && error.code === 'ERR_FILE_NOT_FOUND') return found
        throw error
      })
    },

    async list(path, limit) {
      const requested = askPath('path', path)
      checkCount('limit', limit, 1)
      return at(requested, { finalLink: 'follow' }, async (walked) => {
        const directory = existing(requested, walked)
        if (!directory.info.isDirectory()) {
          throw fileError(
            'ERR_NOT_A_DIRECTORY',
            requested,
            'is not a directory; read it as a file, or list its directory',
          )
        }
        return listDirectory(directory, limit)
      })
    },

    async read(path, range) {
      const requested = askPath('path', path)
      if (range !== undefined) {
        checkCount('offset', range.offset, 0)
        checkCount('length', range.length, 0)
      }
      return at(requested, { finalLink: 'follow' }, async (walked) => {
        const file = existing(requested, walked)
        requireRegularFile(requested, file)
        // O_NONBLOCK: does not wait, not even for a process that holds a lease on the file.
        const handle = await open(selfPath(file), constants.O_RDONLY | constants.O_NONBLOCK)
        return contentOf(handle, range)
      })
    },

    async write(path, content, options = {}) {
      // A source that fails before it is read must not crash the process. The error is reported when it is read.
      if (content instanceof Readable) content.on('error', () => {})
      try {
        const requested = askPath('path', path)
        const mode = checkMode(options.mode)
        return await at(
          requested,
          { finalLink: 'follow', make },
          async ({ directory, name, entry, wantsDirectory }) => {
            if (entry !== undefined) requireRegularFile(requested, entry)
            if (name === undefined || wantsDirectory) {
              throw fileError('ERR_NOT_A_FILE', requested, 'names a directory; give the path of a file')
            }
            const plan = { random, owner, directory, name, replaced: entry, mode, requested }
            return { bytes: await writeContent(plan, content) }
          },
        )
      } catch (error) {
        if (content instanceof Readable) content.destroy()
        throw error
      }
    },

    async remove(path, options = {}) {
      const requested = askPath('path', path)
      return at(requested, { finalLink: 'keep' }, async (walked) => {
        const { directory, name, entry } = named(requested, walked)
        if (!entry.info.isDirectory()) return unlink(entryPath(directory, name))
        if (options.recursive === true) return removeTree(directory, name, requested)
        const emptied = await unless(
          ['ENOTEMPTY', 'EEXIST'],
          rmdir(entryPath(directory, name)).then(() => true),
        )
        if (emptied !== true) {
          throw fileError(
            'ERR_ALREADY_EXISTS',
            requested,
            'is a directory that is not empty; remove it with recursive set',
          )
        }
      })
    },

    async makeDirectory(path) {
      const requested = askPath('path', path)
      return at(requested, { finalLink: 'follow', make }, async ({ directory, name, entry }) => {
        if (entry !== undefined || name === undefined) {
          if (entry?.info.isDirectory() !== false) return
          throw fileError('ERR_ALREADY_EXISTS', requested, 'exists and is not a directory; choose another name')
        }
        await make(directory, name, requested)
        const made = await openEntry(directory, name, requested)
        await made?.handle.close()
        if (made?.info.isDirectory() !== true) throw changedMeanwhile(requested)
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
            throw fileError(
              'ERR_NOT_A_DIRECTORY',
              target,
              'ends with a slash, but the source is not a directory; remove the slash',
            )
          }
          const renaming = rename(entryPath(old.directory, old.name), entryPath(directory, name))
          if (
            (await unless(
              ['EINVAL'],
              renaming.then(() => true),
            )) !== true
          ) {
            throw fileError(
              'ERR_INVALID_INPUT',
              target,
              'is inside the directory that is moved; choose a path outside of it',
            )
          }
        })
      })
    },
  }
}

const infoOf = ({ names }: RequestedPath, inode: InodeHandle): FileInfo =>
  describe(textOfBytes(names.at(-1) ?? '/'), inode.info)

function existing(requested: RequestedPath, { entry }: Walked): InodeHandle {
  if (entry === undefined) {
    throw fileError('ERR_FILE_NOT_FOUND', requested, 'does not exist; list its directory to see what does')
  }
  return entry
}

/** For changes of a directory entry, which require a name. */
function named(requested: RequestedPath, walked: Walked) {
  const { directory, name } = walked
  if (name === undefined) throw endsWithoutName(requested)
  return { directory, name, entry: existing(requested, walked) }
}

const endsWithoutName = (requested: RequestedPath): AppError =>
  fileError('ERR_INVALID_INPUT', requested, 'is the root or ends in ..; give a path that ends in a name')

function requireRegularFile(requested: RequestedPath, { info }: InodeHandle): void {
  if (info.isDirectory()) throw fileError('ERR_NOT_A_FILE', requested, 'is a directory; give the path of a file')
  if (!info.isFile()) {
    throw fileError(
      'ERR_FILE_REFUSED',
      requested,
      'is a device, a pipe or a socket; only regular files are read or written',
    )
  }
}

function checkCount(field: string, value: number, min: number): void {
  if (Number.isSafeInteger(value) && value >= min) return
  throw new AppError('ERR_INVALID_INPUT', `${field}: must be a whole number of at least ${min}`, { field })
}

function checkMode(mode: number | undefined): number | undefined {
  if (mode === undefined || (Number.isInteger(mode) && mode >= 0 && mode <= 0o777)) return mode
  throw new AppError('ERR_INVALID_INPUT', 'mode: must be permission bits from 0 to 0777 octal', { field: 'mode' })
}

/** Takes over the handle; the stream closes it at its end or when it is destroyed. Bytes appended meanwhile are not read. */
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
