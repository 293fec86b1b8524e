import { type BigIntStats, constants } from 'node:fs'
import { link, open, rename, rm, rmdir, unlink } from 'node:fs/promises'
import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import type { TenantId } from '../../contract/principal.ts'
import type {
  VaultCurrent,
  VaultEntry,
  VaultMove,
  VaultPath,
  VaultStore,
  VaultWalk,
} from '../../domains/vault/ports.ts'
import { folderNotFound, noteTooLarge, PRIVATE_FOLDER } from '../../domains/vault/rules.ts'
import { fault } from '../../kernel/fault.ts'
import {
  codeOf,
  type Folder,
  onDisk,
  openChild,
  openRoot,
  statOf,
  statOfFile,
  unless,
  withFolder,
} from './vault-folders.ts'
import { createVaultLocks, lockNameOf, type OpenFileLock } from './vault-locks.ts'

type VaultStoreDeps = Readonly<{
  /** The folder of a tenant's vault. */
  rootOf(tenant: TenantId): string
  openFileLock: OpenFileLock
}>

const FILE_MODE = 0o644
/** How often a change is retried because a program without locks was faster. */
const ATTEMPTS_MAX = 5

/** A vault open for one change: its root, and the folder for its own files. */
type Opened = Readonly<{ root: Folder; own: Folder }>

/** Vaults as folders of plain files, one for each tenant, that people and other programs may use at the same time. */
export function createVaultStore(deps: VaultStoreDeps): VaultStore {
  const locks = createVaultLocks(deps)

  const withRoot = async <T>(tenant: TenantId, work: (root: Folder) => Promise<T>): Promise<T> => {
    const root = await onDisk(() => openRoot(deps.rootOf(tenant)))
    try {
      return await work(root)
    } finally {
      await root.close()
    }
  }

  const locked = <T>(
    tenant: TenantId,
    paths: readonly VaultPath[],
    signal: AbortSignal,
    work: (opened: Opened) => Promise<T>,
  ): Promise<T> =>
    withRoot(tenant, async (root) => {
      const own = await onDisk(() => openOwnFolder(root))
      try {
        const names = paths.map(lockNameOf)
        return await locks.hold(deps.rootOf(tenant), own, names, signal, () => work({ root, own }))
      } finally {
        await own.close()
      }
    })

  return {
    read: (tenant, path) => withRoot(tenant, (root) => onDisk(() => readFile(root, path))),
    update: (tenant, path, change, signal) =>
      locked(tenant, [path], signal, async ({ root, own }) => {
        for (let attempt = 1; attempt <= ATTEMPTS_MAX; attempt++) {
          const before = await onDisk(() => statAt(root, path))
          const { content, answer } = await change(before === undefined ? undefined : currentOf(root, path, before))
          if (content === undefined) return answer
          if (content.byteLength > limits.vaultNoteBytesMax) throw noteTooLarge(path, content.byteLength)
          if (await onDisk(() => replace({ root, own }, path, before, content))) return answer
        }
        throw new AppError('ERR_BUSY', 'Another program keeps changing this note. Try again later.', {
          path,
          retry_after_ms: 1_000,
        })
      }),
    remove: (tenant, path, signal) =>
      locked(tenant, [path], signal, ({ root }) =>
        onDisk(async () => {
          const removed = await inParent(root, path, { make: false }, async (folder, name) => {
            if ((await statOfFile(folder, name)) === undefined) return false
            await unlink(folder.at(name))
            await folder.sync()
            return true
          })
          return removed ?? false
        }),
      ),
    removeEmptyFolder: (tenant, path) =>
      withRoot(tenant, (root) =>
        onDisk(async () => {
          await inParent(root, path, { make: false }, async (folder, name) => {
            await rmdir(folder.at(name)).catch(unless('ENOENT', 'ENOTEMPTY', 'EEXIST', 'ENOTDIR'))
            await folder.sync()
          })
        }),
      ),
    move: (tenant, from, to, overwrite, signal) =>
      locked(tenant, [from, to], signal, ({ root }) => onDisk(() => moveFile(root, from, to, overwrite))),
    async *walk(tenant, folder, walk) {
      const root = await onDisk(() => openRoot(deps.rootOf(tenant)))
      try {
        yield* walkFrom(root, folder, walk)
      } finally {
        await root.close()
      }
    },
  }
}

/** The folder that no path leads to. Version control ignores it, as Obsidian does with such names. */
async function openOwnFolder(root: Folder): Promise<Folder> {
  const own = (await openChild(root, PRIVATE_FOLDER, { make: true }))!
  if ((await statOf(own, '.gitignore')) === undefined) {
    const file = await open(own.at('.gitignore'), 'wx', FILE_MODE).catch(unless('EEXIST'))
    await file?.writeFile('*\n').finally(() => file.close())
  }
  return own
}

/** Runs `work` with the folder of a file and the file's name in it. */
function inParent<T>(
  root: Folder,
  path: VaultPath,
  options: { make: boolean },
  work: (folder: Folder, name: string) => Promise<T>,
): Promise<T | undefined> {
  const names = path.split('/')
  return withFolder(root, names.slice(0, -1), options, (folder) => work(folder, names.at(-1)!))
}

const statAt = (root: Folder, path: VaultPath): Promise<BigIntStats | undefined> =>
  inParent(root, path, { make: false }, statOfFile)

const readFile = (root: Folder, path: VaultPath): Promise<Uint8Array | undefined> =>
  inParent(root, path, { make: false }, async (folder, name) => {
    if ((await statOfFile(folder, name)) === undefined) return undefined
    const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK
    const file = await open(folder.at(name), flags).catch(unless('ENOENT'))
    if (file === undefined) return undefined
    try {
      const found = await file.stat()
      if (!found.isFile()) return undefined
      if (found.size > limits.vaultNoteBytesMax) throw noteTooLarge(path, found.size)
      return await file.readFile()
    } finally {
      await file.close()
    }
  })

const currentOf = (root: Folder, path: VaultPath, found: BigIntStats): VaultCurrent => ({
  sizeBytes: Number(found.size),
  read: async () => (await onDisk(() => readFile(root, path))) ?? new Uint8Array(),
})

/** Whether these are the same file with the same content, as far as the file system can tell. */
const isSame = (one: BigIntStats | undefined, other: BigIntStats | undefined): boolean =>
  one?.ino === other?.ino && one?.size === other?.size && one?.mtimeNs === other?.mtimeNs && one?.dev === other?.dev

/**
 * Replaces what `before` describes by the content, durably. Returns false, and changes nothing, if that no longer exists. The
 * half-written file has the name of the held lock, so nobody else writes it, and one that a crash left is overwritten.
 */
async function replace(
  { root, own }: Opened,
  path: VaultPath,
  before: BigIntStats | undefined,
  content: Uint8Array,
): Promise<boolean> {
  const temporary = own.at(`${lockNameOf(path)}.tmp`)
  await rm(temporary, { force: true })
  try {
    const file = await open(temporary, 'wx', before === undefined ? FILE_MODE : 0o600)
    try {
      fault('file.write')
      await file.writeFile(content)
      if (before !== undefined) {
        // Only a privileged process can keep the owner; for all others it is the same already, or cannot be.
        await file.chown(Number(before.uid), Number(before.gid)).catch(unless('EPERM'))
        await file.chmod(Number(before.mode) & 0o777)
      }
      await file.sync()
    } finally {
      await file.close()
    }
    const isReplaced = await inParent(root, path, { make: true }, async (folder, name) => {
      if (!isSame(before, await statOfFile(folder, name))) return false
      fault('file.replace')
      await rename(temporary, folder.at(name))
      await folder.sync()
      return true
    })
    return isReplaced ?? false
  } finally {
    await rm(temporary, { force: true })
  }
}

async function moveFile(root: Folder, from: VaultPath, to: VaultPath, overwrite: boolean): Promise<VaultMove> {
  const moved = await inParent(root, from, { make: false }, async (source, name): Promise<VaultMove> => {
    const found = await statOfFile(source, name)
    if (found === undefined) return 'missing'
    const answer = await inParent(root, to, { make: true }, async (target, newName): Promise<VaultMove> => {
      const existing = await statOfFile(target, newName)
      if (existing !== undefined && !overwrite) return 'exists'
      fault('file.replace')
      // A name that another program takes at this moment is not overwritten: a link, unlike a rename, replaces nothing.
      const isLinked = existing === undefined && (await tryLink(source.at(name), target.at(newName)))
      if (isLinked === 'exists') return 'exists'
      if (isLinked) {
        await target.sync()
        await unlink(source.at(name))
      } else {
        await rename(source.at(name), target.at(newName))
        await target.sync()
      }
      return existing === undefined ? 'moved' : 'replaced'
    })
    await source.sync()
    return answer ?? 'missing'
  })
  return moved ?? 'missing'
}

/** False where the file system has no hard links. */
async function tryLink(from: string, to: string): Promise<boolean | 'exists'> {
  try {
    await link(from, to)
    return true
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return 'exists'
    if (codeOf(error) === 'EPERM' || codeOf(error) === 'EOPNOTSUPP') return false
    throw error
  }
}

async function* walkFrom(root: Folder, folder: VaultPath | '', walk: VaultWalk): AsyncGenerator<VaultEntry> {
  const opened: Folder[] = []
  try {
    let at = root
    for (const name of folder === '' ? [] : folder.split('/')) {
      const next = await onDisk(() => openChild(at, name, { make: false }))
      if (next === undefined) throw folderNotFound(folder)
      opened.push(next)
      at = next
    }
    yield* walkFolder(at, folder, walk, opened.length)
  } finally {
    for (const one of opened) await one.close()
  }
}

async function* walkFolder(folder: Folder, prefix: string, walk: VaultWalk, depth: number): AsyncGenerator<VaultEntry> {
  for (const name of (await onDisk(() => folder.names())).sort()) {
    if (name === PRIVATE_FOLDER) continue
    const path = prefix === '' ? name : `${prefix}/${name}`
    const found = await onDisk(() => statOf(folder, name))
    if (found === undefined || !(found.isFile() || found.isDirectory())) continue
    const isFolder = found.isDirectory()
    if (isFolder && !walk.isListed(path, name)) continue
    yield { path, isFolder, sizeBytes: Number(found.size), modifiedMs: Number(found.mtimeMs) }
    if (!isFolder || depth + 1 >= limits.vaultFolderDepthMax || !walk.isEntered(path)) continue
    // An entry that became something else meanwhile is skipped; the next walk sees it.
    const child = await openChild(folder, name, { make: false }).catch(() => undefined)
    if (child === undefined) continue
    try {
      yield* walkFolder(child, path, walk, depth + 1)
    } finally {
      await child.close()
    }
  }
}
