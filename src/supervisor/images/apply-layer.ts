import { AppError } from '../../contract/app-error.ts'
import { type BuildEnvironment, runInBuildEnvironment } from './build-environment.ts'
import type { NodeKind, RootfsTree } from './rootfs-tree.ts'
import { readTar, type TarEntry } from './tar-reader.ts'
import { tarEnd, tarHeader, tarPadding, type WritableEntry } from './tar-writer.ts'

/** An archive that can be read twice: once to plan, once to unpack. */
export type Layer = Readonly<{
  /** The uncompressed archive. Throws at the end if its digest does not match. */
  open(): AsyncIterable<Uint8Array>
}>

export type LayerDeps = Readonly<{
  buildEnvironment: BuildEnvironment
  tree: RootfsTree
  /** The folder of the root file system, owned by the namespace's root. */
  rootfs: string
  signal: AbortSignal
  counts: LayerCounts
}>

/** `leftBytes` is what may still be unpacked. The others count entries that could not be reproduced exactly. */
type LayerCounts = { leftBytes: number; devices: number; foreignIds: number }

type Step = Readonly<{ name: string; write: WritableEntry; parents: readonly string[] }>
type Plan = Readonly<{ removals: readonly string[]; steps: readonly (Step | undefined)[] }>

const WHITEOUT = '.wh.'
const OPAQUE = '.wh..wh..opq'
const NOBODY = 65_534
const CHUNK_BYTES = 64 * 1024

/**
 * Applies one layer on top of the present tree. No part of the archive reaches the file system as it is: the plan resolves every
 * name against the tree, and tar in the namespace gets an archive that is rewritten from the plan.
 */
export async function applyLayer(deps: LayerDeps, layer: Layer, number: number): Promise<void> {
  const plan = await planLayer(deps, layer, number)
  const { buildEnvironment, signal, rootfs: directory } = deps
  if (plan.removals.length > 0) {
    const list = Buffer.from(plan.removals.map((path) => `./${path}\0`).join(''), 'latin1')
    await runInBuildEnvironment(buildEnvironment, {
      argv: ['xargs', '--null', 'rm', '-rf', '--'],
      directory,
      signal,
      input: once(list),
    })
  }
  await extractInBuildEnvironment(deps, inChunks(rewritten(plan, layer)))
}

/** For an archive that can be read only once and holds no whiteouts, such as a copy of a directory. */
export async function applyStream(deps: LayerDeps, source: AsyncIterable<Uint8Array>): Promise<void> {
  await extractInBuildEnvironment(deps, inChunks(rewrittenAtOnce(deps, source)))
}

const extractInBuildEnvironment = (deps: LayerDeps, input: AsyncIterable<Uint8Array>): Promise<string> =>
  runInBuildEnvironment(deps.buildEnvironment, { argv: EXTRACT, directory: deps.rootfs, signal: deps.signal, input })

const EXTRACT = [
  'tar',
  '--extract',
  '--file=-',
  '--numeric-owner',
  '--same-owner',
  '--same-permissions',
  '--delay-directory-restore',
  '--no-acls',
  '--no-selinux',
  '--no-xattrs',
] as const

/** Whiteouts apply to lower layers, wherever they stand in their own layer; so all entries are read first. */
async function planLayer(deps: LayerDeps, layer: Layer, number: number): Promise<Plan> {
  const { tree } = deps
  const entries: TarEntry[] = []
  for await (const { entry } of readTar(bounded(layer.open(), deps.counts))) entries.push(entry)
  const removals: string[] = []
  for (const entry of entries) {
    const { folder, base } = splitBase(entry.name)
    if (base === OPAQUE) removals.push(...tree.empty(folder))
    else if (isWhiteout(base)) removals.push(...tree.remove(`./${folder}/${whitedOut(base)}`))
  }
  const steps = entries.map((entry) => {
    if (isMarker(splitBase(entry.name).base)) return undefined
    const added = addEntry(deps, entry, number)
    if (added?.obstacle !== undefined) removals.push(added.obstacle)
    return added?.step
  })
  return { removals, steps }
}

const isMarker = (base: string): boolean => base.startsWith(WHITEOUT)
/** A name with a second `.wh.` is metadata of aufs. */
const isWhiteout = (base: string): boolean => isMarker(base) && !base.startsWith(`${WHITEOUT}${WHITEOUT}`)

function whitedOut(base: string): string {
  const name = base.slice(WHITEOUT.length)
  if (name !== '' && name !== '.' && name !== '..') return name
  throw new AppError(
    'ERR_INVALID_INPUT',
    'The image has a whiteout entry that names no file, so it was not built. Build the source again, or use another one.',
    {
      field: 'source',
    },
  )
}

function splitBase(name: string): { folder: string; base: string } {
  const trimmed = name.replace(/\/+$/, '')
  const slash = trimmed.lastIndexOf('/')
  return { folder: slash < 0 ? '' : trimmed.slice(0, slash), base: trimmed.slice(slash + 1) }
}

/** Device nodes cannot be created in a user namespace; a workspace has its own /dev. */
function addEntry(deps: LayerDeps, entry: TarEntry, layer: number): { step: Step; obstacle?: string } | undefined {
  const { tree, counts } = deps
  const { kind } = entry
  if (kind === 'device') {
    counts.devices += 1
    return undefined
  }
  const other = kind === 'hardlink' ? tree.linkTarget(entry.linkName) : undefined
  const linkName = other?.path ?? (kind === 'symlink' ? entry.linkName : '')
  if (kind === 'symlink' && (linkName === '' || linkName.length > 4_095)) {
    throw new AppError(
      'ERR_INVALID_INPUT',
      'The image has a symbolic link without a valid target. Build the source again, or use another one.',
      {
        field: 'source',
      },
    )
  }
  const nodeKind: NodeKind = kind === 'hardlink' ? other!.kind : kind
  const { path, parents, obstacle } = tree.add(entry.name, nodeKind, other?.target ?? linkName, layer)
  const write = { ...entry, kind, name: path === '' ? './' : path, linkName, ...ownerOf(deps, entry) }
  const step = { name: entry.name, write, parents }
  return obstacle === undefined ? { step } : { step, obstacle }
}

/** With a single id every file belongs to root; ids beyond those of the namespace become nobody. */
function ownerOf({ buildEnvironment, counts }: LayerDeps, { uid, gid }: TarEntry): { uid: number; gid: number } {
  if (uid >= buildEnvironment.idCount || gid >= buildEnvironment.idCount) counts.foreignIds += 1
  const fitting = (id: number): number =>
    id < buildEnvironment.idCount ? id : buildEnvironment.idCount > NOBODY ? NOBODY : 0
  return { uid: fitting(uid), gid: fitting(gid) }
}

async function* rewritten(plan: Plan, layer: Layer): AsyncGenerator<Uint8Array> {
  let index = 0
  for await (const { entry, content } of readTar(layer.open())) {
    const step = plan.steps[index]
    index += 1
    if (step === undefined) continue
    if (step.name !== entry.name || step.write.sizeBytes !== entry.sizeBytes) {
      throw new AppError('ERR_INVALID_INPUT', 'The image was changed while it was read.', { field: 'source' })
    }
    yield* written(step, content())
  }
  yield tarEnd()
}

async function* rewrittenAtOnce(deps: LayerDeps, source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  for await (const { entry, content } of readTar(bounded(source, deps.counts))) {
    const added = addEntry(deps, entry, 1)
    if (added !== undefined) yield* written(added.step, content())
  }
  yield tarEnd()
}

async function* written({ write, parents }: Step, content: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  for (const path of parents) {
    yield tarHeader({
      ...write,
      name: path,
      kind: 'directory',
      linkName: '',
      mode: 0o755,
      uid: 0,
      gid: 0,
      sizeBytes: 0,
    })
  }
  yield tarHeader(write)
  if (write.kind !== 'file') return
  yield* content
  yield tarPadding(write.sizeBytes)
}

async function* bounded(source: AsyncIterable<Uint8Array>, counts: LayerCounts): AsyncGenerator<Uint8Array> {
  for await (const part of source) {
    counts.leftBytes -= part.length
    if (counts.leftBytes < 0) {
      throw new AppError(
        'ERR_TOO_LARGE',
        'The image is larger than --max-gb allows. Raise --max-gb, or use a smaller image.',
        {
          field: 'source',
        },
      )
    }
    yield part
  }
}

/** Headers are small and many; fewer and larger writes to the pipe are faster. */
async function* inChunks(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let parts: Uint8Array[] = []
  let bytes = 0
  for await (const part of source) {
    parts.push(part)
    bytes += part.length
    if (bytes < CHUNK_BYTES) continue
    yield Buffer.concat(parts)
    parts = []
    bytes = 0
  }
  if (bytes > 0) yield Buffer.concat(parts)
}

async function* once(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes
}
