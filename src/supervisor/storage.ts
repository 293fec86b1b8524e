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
 * Root file systems as overlays: an image, the layers of snapshots, and on top what the workspace itself changed.
 * On btrfs that top is a subvolume, so a snapshot is one call and a quota holds; elsewhere it is a folder and a snapshot
 * copies what changed.
 */
export type Storage = Readonly<{
  create(id: string, bounds: DiskBounds, files: readonly OwnFile[]): Promise<void>
  /** Before the root is mounted, though the workspace has run: its links lead nowhere but into itself. */
  writeFiles(id: string, files: readonly OwnFile[]): Promise<void>
  /** Of what was written of a file when the supervisor was killed; before the root is mounted. */
  clearCutWrites(id: string): Promise<void>
  /** Answers where. `view` is where our state is, under the ids of the workspace. */
  mountRoot(spec: Pick<WorkspaceSpec, 'id' | 'layers'>, imageRoot: string, view: string): Promise<string>
  unmountRoot(id: string): Promise<void>
  /** The workspace must be frozen or stopped. */
  copyToLayer(id: string, layerId: string, group: number): Promise<void>
  /** Another limit of the disk, which may be in use. What is there stays, also when it is more. */
  resize(id: string, bytesMax: number): Promise<void>
  /** Empties what the workspace changed. */
  reset(id: string, bounds: DiskBounds, files: readonly OwnFile[]): Promise<void>
  destroy(id: string): Promise<void>
  removeLayer(layerId: string): Promise<void>
  usedBytes(id: string): Promise<number>
  layerBytes(layerId: string): Promise<number>
  stored(): Promise<string[]>
  has(id: string): boolean
  layers(): Promise<string[]>
}>

/** Both hold where the store has quotas; `group` is the number of the tenant's share. */
export type DiskBounds = Readonly<{ bytesMax: number; group: number }>

/** A file that a workspace has of us; the path is as the workspace sees it. */
export type OwnFile = Readonly<{ path: string; text: string }>

const MS_NOSUID = 2
const MS_NODEV = 4
const O_PATH = 0o10000000
/** In the words of openat-files/write-content.ts. */
const TEMPORARY_NAME = '\\.castellan-[0-9a-f]{32}\\.tmp'
/** Marks what is half made or half removed; such names are cleared away at the next start. */
const PENDING = '.pending-'

/** After a removal, how long the kernel may take to count what is gone as free. */
const FREED_MS_MAX = 10_000
const FREED_POLL_MS = 200

type StorageDeps = Readonly<{
  clock: Clock
  root: string
  /** Where the roots of workspaces are mounted. */
  mounts: string
  kind: 'btrfs' | 'plain'
  launcher: Launcher
  /** Sets the quota of a subvolume that there is, which only the machine's root may. */
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
  /** Renamed first, so that what is gone by name is gone even when removing its content takes long. */
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
  /** What was removed last may not be counted as free yet. */
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
      // What a failed start left may be a plain folder.
      const isRemoved = await launcher.removeSubvolume(path).then(
        () => true,
        () => false,
      )
      if (isRemoved) return
    }
    // By its program, which takes trees deeper than any path; the overlay's own working folder has mode 000.
    await mustRun(run, ['rm', '-rf', '--one-file-system', '--', path])
  }
  /** Under its name only when it is whole. What a full disk cut short is removed. */
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
      // A handful of small files, nothing of which is waited for on a disk: one after the other is the fastest.
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
    async clearCutWrites(id) {
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
