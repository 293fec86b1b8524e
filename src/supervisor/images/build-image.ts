import { lstat, realpath, stat } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { Readable } from 'node:stream'
import { AppError } from '../../contract/app-error.ts'
import type { ImageInfo } from '../../domains/workspaces/backend.ts'
import type { Clock } from '../../kernel/clock.ts'
import { counted } from '../../kernel/counted.ts'
import type { Random } from '../../kernel/random.ts'
import { applyLayer, applyStream, type LayerDeps } from './apply-layer.ts'
import { openArchiveFile } from './archive-file.ts'
import { type BuildEnvironment, runInBuildEnvironment, startProducer } from './build-environment.ts'
import { runDebootstrap } from './debootstrap.ts'
import {
  HOST_IMAGE,
  hiddenName,
  makeOwnedDirectory,
  publish,
  removeAbandoned,
  requireImageName,
  withFolderLock,
} from './image-folder.ts'
import { openLayer, readImageArchive, type StoredDefaults } from './oci-archive.ts'
import { createRootfsTree } from './rootfs-tree.ts'

export type ImageSource =
  | Readonly<{ kind: 'debootstrap'; suite: string; mirror: string | undefined }>
  | Readonly<{ kind: 'oci-archive' | 'directory'; path: string }>

type BuildImageDeps = Readonly<{
  buildEnvironment: BuildEnvironment
  /** The folder of all images. */
  root: string
  clock: Clock
  random: Random
}>

export type BuildImageRequest = Readonly<{
  name: string
  source: ImageSource
  /** The size limit of the unpacked image. */
  bytesMax: number
  /** Proxy variables of the environment. */
  environment: Readonly<Record<string, string>>
  signal: AbortSignal
  onProgress(text: string): void
}>

/** `notes` tell the user what could not be reproduced exactly. */
export type BuiltImage = ImageInfo & Readonly<{ notes: readonly string[] }>

const ENTRIES_MAX = 2_000_000

/** Builds an image atomically: it gets its name only when it is complete and on disk. */
export async function buildImage(deps: BuildImageDeps, request: BuildImageRequest): Promise<BuiltImage> {
  const { buildEnvironment, root } = deps
  const { name, signal } = request
  requireImageName(name)
  if (name === HOST_IMAGE) {
    throw new AppError(
      'ERR_INVALID_INPUT',
      "The name 'host' is reserved for the image of this machine. Choose another name.",
      {
        field: 'name',
      },
    )
  }
  await makeOwnedDirectory(buildEnvironment, root, 0o700)
  return await withFolderLock(root, async () => {
    await removeAbandoned(buildEnvironment, root, signal)
    if (await exists(join(root, name))) {
      throw new AppError('ERR_ALREADY_EXISTS', `The image '${name}' already exists. Remove it first.`, {
        field: 'name',
      })
    }
    const hidden = hiddenName('building', deps.random)
    const directory = join(root, hidden)
    try {
      await runInBuildEnvironment(buildEnvironment, {
        argv: ['mkdir', '-m', '755', hidden, `${hidden}/rootfs`],
        directory: root,
        signal,
      })
      const { notes, defaults } = await fill(deps, request, directory)
      const image = await finish(deps, request, { directory, defaults })
      await publish(root, hidden, name)
      return { ...image, notes }
    } catch (error) {
      await removeAbandoned(buildEnvironment, root, NEVER)
      throw error
    }
  })
}

const NEVER = new AbortController().signal

type Filled = Readonly<{ notes: readonly string[]; defaults: StoredDefaults }>

async function fill(deps: BuildImageDeps, request: BuildImageRequest, directory: string): Promise<Filled> {
  const { buildEnvironment } = deps
  const { source, signal, onProgress, environment } = request
  if (source.kind === 'debootstrap') {
    const { suite, mirror } = source
    const notes = await runDebootstrap(buildEnvironment, { suite, mirror, directory, environment, signal, onProgress })
    return { notes, defaults: {} }
  }
  const counts = { leftBytes: request.bytesMax, devices: 0, foreignIds: 0 }
  const tree = createRootfsTree(ENTRIES_MAX)
  const layerDeps: LayerDeps = { buildEnvironment, tree, rootfs: join(directory, 'rootfs'), signal, counts }
  if (source.kind === 'directory') {
    await copyDirectory(deps, layerDeps, source.path, onProgress)
    return { notes: notesOf(buildEnvironment, counts), defaults: {} }
  }
  const defaults = await unpackArchive(layerDeps, source.path, onProgress)
  return { notes: notesOf(buildEnvironment, counts), defaults }
}

async function unpackArchive(
  deps: LayerDeps,
  path: string,
  onProgress: (text: string) => void,
): Promise<StoredDefaults> {
  const archive = await openArchiveFile(path)
  const { layers, defaults } = await readImageArchive(archive, process.arch)
  for (const [index, stored] of layers.entries()) {
    onProgress(`Layer ${index + 1} of ${layers.length}`)
    await applyLayer(deps, openLayer(archive, stored), index + 1)
  }
  return defaults
}

async function copyDirectory(
  { root }: BuildImageDeps,
  deps: LayerDeps,
  path: string,
  onProgress: (text: string) => void,
): Promise<void> {
  const found = await stat(path).catch(() => undefined)
  if (found?.isDirectory() !== true) {
    throw new AppError('ERR_NOT_FOUND', 'SOURCE must be a directory that you may read.', { field: 'source', path })
  }
  const directory = await realpath(path)
  if (!relative(directory, await realpath(root)).startsWith('..')) {
    throw new AppError(
      'ERR_INVALID_INPUT',
      'SOURCE contains the folder of the images. Use a directory outside of it.',
      {
        field: 'source',
      },
    )
  }
  onProgress(`Copying ${directory}`)
  const { buildEnvironment, signal } = deps
  // Root reads the source as root, and owners keep their numbers; for an ordinary user only the namespace knows the ids.
  const prefix = buildEnvironment.owner.uid === process.getuid!() ? buildEnvironment.enterArgv() : []
  const producer = startProducer(prefix, { argv: COPY, directory, signal })
  await applyStream(deps, untilEnded(producer))
}

/** Waits for the exit as well: whether a file could not be read is known only then. */
async function* untilEnded(producer: ReturnType<typeof startProducer>): AsyncGenerator<Uint8Array> {
  yield* producer.output
  await producer.ended
}

const COPY = [
  'tar',
  '--create',
  '--file=-',
  '--format=gnu',
  '--one-file-system',
  '--numeric-owner',
  '--warning=no-file-ignored',
  '.',
] as const

function notesOf(buildEnvironment: BuildEnvironment, counts: LayerDeps['counts']): string[] {
  const notes: string[] = []
  if (counts.devices > 0) notes.push(`${counts.devices} device files were left out; a workspace has its own.`)
  if (counts.foreignIds > 0 && buildEnvironment.idCount > 1) {
    notes.push(
      `${counted(counts.foreignIds, 'file has an owner', 'files have owners')} beyond id ${buildEnvironment.idCount - 1}; the owner is now the user nobody.`,
    )
  }
  if (counts.foreignIds > 0 && buildEnvironment.idCount === 1) {
    notes.push(`All files belong to root, because there is only one user id here. ${buildEnvironment.limitation ?? ''}`)
  }
  return notes
}

async function finish(
  deps: BuildImageDeps,
  request: BuildImageRequest,
  { directory, defaults }: Readonly<{ directory: string; defaults: StoredDefaults }>,
): Promise<ImageInfo> {
  const { buildEnvironment, clock } = deps
  const { signal, source } = request
  request.onProgress('Writing to disk')
  const rootfs = join(directory, 'rootfs')
  const output = await runInBuildEnvironment(buildEnvironment, {
    argv: ['sh', '-c', FINISH],
    program: 'du',
    directory: rootfs,
    signal,
  })
  const hasDpkg = await exists(join(rootfs, 'usr/bin/dpkg'))
  const image: ImageInfo = {
    name: request.name,
    source: source.kind,
    createdAtMs: clock.nowMs(),
    bytes: Number(output.split('\t')[0]),
    // Package managers create files of other users, which needs several ids.
    packages: buildEnvironment.idCount > 1 && (source.kind !== 'directory' || hasDpkg),
    ...defaults,
  }
  const description = Readable.from([Buffer.from(`${JSON.stringify(image)}\n`)])
  await runInBuildEnvironment(buildEnvironment, {
    argv: ['sh', '-c', DESCRIBE],
    program: 'sh',
    directory,
    signal,
    input: description,
  })
  await runInBuildEnvironment(buildEnvironment, { argv: ['sync', '--file-system', '.'], directory, signal })
  return image
}

/** Creates the mount points of a workspace where the image lacks them, and prints the size of the image. */
const FINISH = `
set -eu
umask 022
for name in proc sys dev run workspace tmp root etc; do
  if [ ! -e $name ] && [ ! -L $name ]; then mkdir $name; [ $name != tmp ] || chmod 1777 tmp; fi
done
du --summarize --one-file-system --block-size=1 .
`

/** Runs as the namespace's root, who owns the folder: a symbolic link in it leads only where that user may write anyway. */
const DESCRIBE = 'umask 022; cat >image.json'

const exists = (path: string): Promise<boolean> =>
  lstat(path).then(
    () => true,
    () => false,
  )
