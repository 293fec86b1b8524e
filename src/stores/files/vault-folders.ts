import { type BigIntStats, constants } from 'node:fs'
import { type FileHandle, lstat, mkdir, open, readdir } from 'node:fs/promises'
import { AppError } from '../../contract/app-error.ts'
import { invalid } from '../../domains/vault/rules.ts'

/**
 * Folders held open, so that a path is walked one name at a time from a folder that stays the same whatever is renamed or linked
 * meanwhile. `at` names an entry of exactly this folder: the kernel resolves it from the descriptor, like `openat`. No followed
 * name may be a symbolic link; only the root of the walk is the operator's choice.
 */
export type Folder = Readonly<{
  at(name: string): string
  names(): Promise<string[]>
  /** Makes new, renamed and removed entries durable. */
  sync(): Promise<void>
  close(): Promise<void>
}>

const FOLDER_FLAGS = constants.O_RDONLY | constants.O_DIRECTORY
const FOLDER_MODE = 0o755

function folderOf(handle: FileHandle): Folder {
  const path = `/proc/self/fd/${handle.fd}`
  return {
    at: (name) => `${path}/${name}`,
    names: () => readdir(path),
    sync: () => handle.sync(),
    close: () => handle.close(),
  }
}

/** Opens the root, and creates it if it does not exist. */
export async function openRoot(path: string): Promise<Folder> {
  if (process.platform !== 'linux') {
    throw new AppError('ERR_STORE_UNAVAILABLE', 'The vault needs Linux: it walks paths by descriptor.', { path })
  }
  await mkdir(path, { recursive: true, mode: 0o700 })
  return folderOf(await open(path, FOLDER_FLAGS))
}

/** Opens the folder of this name. Undefined if there is none, unless `make` creates it. */
export async function openChild(parent: Folder, name: string, options: { make: boolean }): Promise<Folder | undefined> {
  try {
    return folderOf(await open(parent.at(name), FOLDER_FLAGS | constants.O_NOFOLLOW))
  } catch (error) {
    switch (codeOf(error)) {
      case 'ENOENT':
        if (!options.make) return undefined
        break
      case 'ENOTDIR':
      case 'ELOOP':
        await refuseLink(parent, name)
        if (!options.make) return undefined
        throw invalid('path', 'leads through a file as if it were a folder', { name })
      default:
        throw error
    }
  }
  await mkdir(parent.at(name), { mode: FOLDER_MODE }).catch(unless('EEXIST'))
  await parent.sync()
  return await openChild(parent, name, { make: false })
}

/** Runs `work` with the folder at these names. Undefined if there is no such folder. */
export async function withFolder<T>(
  root: Folder,
  names: readonly string[],
  options: { make: boolean },
  work: (folder: Folder) => Promise<T>,
): Promise<T | undefined> {
  const [name, ...rest] = names
  if (name === undefined) return await work(root)
  const folder = await openChild(root, name, options)
  if (folder === undefined) return undefined
  try {
    return await withFolder(folder, rest, options, work)
  } finally {
    await folder.close()
  }
}

/** The entry itself; undefined if there is none. */
export async function statOf(folder: Folder, name: string): Promise<BigIntStats | undefined> {
  return await lstat(folder.at(name), { bigint: true }).catch(unless('ENOENT'))
}

/** The status of a regular file. Undefined if there is none. A link, a folder, a pipe or a device is refused. */
export async function statOfFile(folder: Folder, name: string): Promise<BigIntStats | undefined> {
  const found = await statOf(folder, name)
  if (found === undefined || found.isFile()) return found
  await refuseLink(folder, name)
  throw invalid('path', found.isDirectory() ? 'is a folder, not a note' : 'is not a regular file', { name })
}

async function refuseLink(folder: Folder, name: string): Promise<void> {
  const found = await statOf(folder, name)
  if (found?.isSymbolicLink()) {
    throw invalid('path', 'contains a symbolic link, which the vault never follows', { name })
  }
}

export const codeOf = (error: unknown): string | undefined => (error as NodeJS.ErrnoException).code

/** For `catch`: these failures become undefined, all others are thrown. */
export const unless =
  (...codes: readonly string[]) =>
  (error: unknown): undefined => {
    if (!codes.includes(codeOf(error) ?? '')) throw error
  }

/** A disk failure is the store's failure; refusals by rules stay what they are. */
export async function onDisk<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof AppError) throw error
    const code = codeOf(error)
    throw new AppError(
      'ERR_STORE_UNAVAILABLE',
      `The folder of the vault cannot be used${code === undefined ? '' : ` (${code})`}. Check the folder and its permissions.`,
      code === undefined ? { store: 'vault' } : { store: 'vault', code },
      { cause: error },
    )
  }
}
