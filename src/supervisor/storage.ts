import { constants, existsSync, mkdirSync, renameSync, writeFileSync } from 'node:fs'
import { mkdir, open, readdir, rename, rm } from 'node:fs/promises'
import { dirname, join, relative } from 'node:path'
import type { WorkspaceSpec } from '../domains/workspaces/backend.ts'
import type { Clock } from '../kernel/clock.ts'
import type { Random } from '../kernel/random.ts'
import type { Launcher } from './launcher.ts'
import { isNoSpace } from './no-space.ts'
import { createOpenatFiles } from './openat-files/index.ts'
import { mustRun, type RunCommand } from './run-command.ts'

/**
 * Root file systems as overlay mounts: an image, the layers of snapshots, and an upper layer with the workspace's own changes. On
 * btrfs the upper layer is a subvolume, so that a snapshot is one call and a quota is enforced. Elsewhere it is a folder, and a
 * snapshot copies it.
 */
export type Storage = Readonly<{
  create(id: string, bounds: DiskBounds, files: readonly OwnFile[]): Promise<void>
  /**
   * To be called before the root is mounted. The workspace may have run before, so links in its files are never followed out of
   * it.
   */
  writeFiles(id: string, files: readonly OwnFile[]): Promise<void>
  /** Removes temporary files of writes that were interrupted by a kill. To be called before the root is mounted. */
  clearInterruptedWrites(id: string): Promise<void>
  /** Returns the mount point. `view` is the path of the state directory under the ids of the workspace. */
  mountRoot(spec: Pick<WorkspaceSpec, 'id' | 'layers'>, imageRoot: string, view: string): Promise<string>
  unmountRoot(id: string): Promise<void>
  /** The workspace must be frozen or stopped. */
  copyToLayer(id: string, layerId: string, group: number): Promise<void>
  /** Changes the disk quota, even of a workspace that runs. Existing data stays, even if it exceeds the quota. */
  resize(id: string, bytesMax: number): Promise<void>
  /** Empties the upper layer. */
  reset(id: string, bounds: DiskBounds, files: readonly OwnFile[]): Promise<void>
  destroy(id: string): Promise<void>
  removeLayer(layerId: string): Promise<void>
  usedBytes(id: string): Promise<number>
  layerBytes(layerId: string): Promise<number>
  stored(): Promise<string[]>
  has(id: string): boolean
  layers(): Promise<string[]>
}>

/** Both bounds are enforced if the file system has quotas. `group` is the number of the tenant's quota group. */
export type DiskBounds = Readonly<{ bytesMax: number; group: number }>

/** A file that the supervisor writes into a workspace. `path` is as the workspace sees it. */
export type OwnFile = Readonly<{ path: string; text: string }>

const MS_NOSUID = 2
const MS_NODEV = 4
const O_PATH = 0o10000000
/** The pattern of the names in openat-files/write-content.ts. */
const TEMPORARY_NAME = '\\.castellan-[0-9a-f]{32}\\.tmp'
/** Marks folders that are half created or half removed. The next start removes them. */
const PENDING = '.pending-'

/** How long the kernel may take to count removed data as free. */
const FREED_MS_MAX = 10_000
const FREED_POLL_MS = 200

type StorageDeps = Readonly<{
  clock: Clock
  root: string
  /** The folder of the mount points. */
  mounts: string
  kind: 'btrfs' | 'plain'
  launcher: Launcher
  /** Sets the quota of an existing subvolume, which only the machine's root may do. */
  setQuota(id: string, bytesMax: number): Promise<void>
  run: RunCommand
  random: Random
}>

export async function createStorage({
  root,
  mounts,
  kind,
  launcher,
  setQuota,
  run,
  clock,
  random,
}: StorageDeps): Promise<Storage> {
  const active = join(root, 'store/active')
  const layerFolder = join(root, 'store/layers')
  const stage = join(root, 'run/stage')
  for (const folder of [active, layerFolder, stage]) await mkdir(folder, { recursive: true })
  let pendingCount = 0
  let removedMs = Number.NEGATIVE_INFINITY

  async function makeFolder(path: string, { bytesMax, group }: DiskBounds): Promise<void> {
    if (kind === 'btrfs') await launcher.makeSubvolume(path, bytesMax, group)
    else await mkdir(path)
  }
  /** Renamed first, so the name is free at once even if removing the content takes long. */
  async function discard(path: string, folder: string): Promise<void> {
    const pending = join(folder, `${PENDING}${process.pid}-${pendingCount++}`)
    try {
      await rename(path, pending)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return
      throw error
    }
    await removeTree(pending)
    removedMs = clock.monotonicMs()
  }
  /** Retries, because recently removed data may not count as free yet. */
  async function whenFreed(make: () => Promise<void>): Promise<void> {
    for (;;) {
      try {
        return await make()
      } catch (error) {
        if (kind !== 'btrfs' || !isNoSpace(error) || clock.monotonicMs() - removedMs > FREED_MS_MAX) throw error
        await new Promise((resolve) => setTimeout(resolve, FREED_POLL_MS))
      }
    }
  }
  async function removeTree(path: string): Promise<void> {
    if (kind === 'btrfs') {
      // A failed start may have left a plain folder.
      const isRemoved = await launcher.removeSubvolume(path).then(
        () => true,
        () => false,
      )
      if (isRemoved) return
    }
    // rm(1) handles trees that are deeper than PATH_MAX. The overlay's own work folder has mode 000.
    await mustRun(run, ['rm', '-rf', '--one-file-system', '--', path])
  }
  /** The result gets its name only when it is complete. What a full disk cut short is removed. */
  async function replaceAtomically(
    folder: string,
    name: string,
    make: (pending: string) => Promise<void>,
  ): Promise<void> {
    const pending = join(folder, `${PENDING}${process.pid}-${pendingCount++}`)
    try {
      await make(pending)
      renameSync(pending, join(folder, name))
    } catch (error) {
      await removeTree(pending).catch(() => {})
      throw error
    }
  }
  for (const folder of [active, layerFolder]) {
    for (const name of await readdir(folder)) if (name.startsWith(PENDING)) await removeTree(join(folder, name))
  }

  const pathOf = (id: string): string => join(active, id)
  const mountPoint = (id: string): string => join(mounts, id)
  const create = async (id: string, bounds: DiskBounds, files: readonly OwnFile[]): Promise<void> => {
    const put = (): Promise<void> => replaceAtomically(active, id, (pending) => fill(pending))
    const fill = async (pending: string): Promise<void> => {
      await makeFolder(pending, bounds)
      // Synchronous, because these are a few small files that are not flushed to disk.
      mkdirSync(join(pending, 'upper'), { mode: 0o755 })
      mkdirSync(join(pending, 'work'), { mode: 0o700 })
      for (const { path, text } of files) {
        const target = join(pending, 'upper', path)
        mkdirSync(dirname(target), { recursive: true, mode: 0o755 })
        writeFileSync(target, text, { mode: 0o644 })
      }
    }
    await whenFreed(put)
  }
  const named = async (folder: string): Promise<string[]> =>
    (await readdir(folder)).filter((name) => !name.startsWith(PENDING))
  const bytesOf = async (path: string): Promise<number> =>
    Number((await mustRun(run, ['du', '-s', '--block-size=1', path])).split('\t')[0])

  return {
    create,
    async writeFiles(id, files) {
      const openRoot = () => open(join(pathOf(id), 'upper'), O_PATH | constants.O_DIRECTORY)
      const openat = createOpenatFiles({ openRoot, owner: { uid: 0, gid: 0 }, random })
      for (const { path, text } of files) await openat.write(path, Buffer.from(text), { mode: 0o644 })
    },
    async clearInterruptedWrites(id) {
      const ours = ['-regextype', 'posix-extended', '-regex', `.*/${TEMPORARY_NAME}`]
      await mustRun(run, ['find', join(pathOf(id), 'upper'), '-xdev', '-type', 'f', ...ours, '-delete'])
    },
    async mountRoot(spec, imageRoot, view) {
      const target = mountPoint(spec.id)
      mkdirSync(target, { recursive: true })
      const seen = (path: string): string => join(view, relative(root, path))
      const layers = [...spec.layers].reverse().map((layer) => join(layerFolder, layer, 'upper'))
      const options = [
        'userxattr',
        `lowerdir=${[...layers, imageRoot].map(seen).join(':')}`,
        `upperdir=${seen(join(pathOf(spec.id), 'upper'))}`,
        `workdir=${seen(join(pathOf(spec.id), 'work'))}`,
      ]
      await launcher.mount('overlay', target, MS_NOSUID | MS_NODEV, options.join(','))
      return target
    },
    async unmountRoot(id) {
      await launcher.unmount(mountPoint(id))
      await rm(mountPoint(id), { recursive: true, force: true }).catch(() => {})
    },
    copyToLayer: (id, layerId, group) =>
      replaceAtomically(layerFolder, layerId, async (pending) => {
        if (kind === 'btrfs') return await launcher.copySubvolume(pathOf(id), pending, group)
        await mkdir(pending)
        await launcher.copyTree(join(pathOf(id), 'upper'), pending, stage)
      }),
    async resize(id, bytesMax) {
      if (kind === 'btrfs') await setQuota(id, bytesMax)
    },
    async reset(id, bounds, files) {
      await discard(pathOf(id), active)
      await create(id, bounds, files)
    },
    destroy: (id) => discard(pathOf(id), active),
    removeLayer: (layerId) => discard(join(layerFolder, layerId), layerFolder),
    usedBytes: (id) => bytesOf(join(pathOf(id), 'upper')),
    layerBytes: (layerId) => bytesOf(join(layerFolder, layerId, 'upper')),
    stored: () => named(active),
    has: (id) => existsSync(pathOf(id)),
    layers: () => named(layerFolder),
  }
}
