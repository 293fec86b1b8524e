import {
  chmodSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  type Stats,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { lstat, mkdir, readdir, readFile, readlink, rename, rm, stat, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import type { ImageInfo } from '../../domains/workspaces/backend.ts'
import type { Clock } from '../../kernel/clock.ts'
import { sha256Hex } from '../../kernel/hash.ts'
import type { Random } from '../../kernel/random.ts'
import { copiedFromEtc, writtenFiles } from './host-files.ts'
import { hiddenName } from './image-folder.ts'

export type Bind = Readonly<{ source: string; target: string }>

type HostImageDeps = Readonly<{
  clock: Clock
  random: Random
  /** The root of the source machine. */
  machineRoot?: string
}>

export type HostImage = Readonly<{ image: ImageInfo; binds: readonly Bind[] }>

/** To be incremented with every change of the image's content. */
const FORMAT = 3
/** On the PATH of every workspace. */
const PYTHON_LINK = 'root/.local/bin/python'
/** A larger file is no configuration. */
const COPIED_BYTES_MAX = 4 * 1024 * 1024
const COPY_DEPTH_MAX = 6

const topLinks = ['bin', 'sbin', 'lib', 'lib32', 'lib64', 'libx32'] as const
const directories: Readonly<Record<string, number>> = {
  etc: 0o755,
  root: 0o700,
  home: 0o755,
  tmp: 0o1777,
  var: 0o755,
  'var/tmp': 0o1777,
  'var/lib': 0o755,
  'var/cache': 0o755,
  'var/log': 0o755,
  run: 0o755,
  proc: 0o755,
  dev: 0o755,
  sys: 0o755,
  workspace: 0o755,
  opt: 0o755,
  srv: 0o755,
  mnt: 0o755,
  usr: 0o755,
}

/**
 * Creates the image `host` in `directory`: this machine's programs, mounted read-only, with a generated `/etc`. Of the machine's
 * own `/etc` it holds only public files and those that programs in `/usr` link to; nothing of homes, accounts, keys or sockets.
 * An existing image is reused until the machine or the format changes.
 *
 * To be called only while no workspace uses the image, and by one process at a time.
 */
export async function assembleHostImage(directory: string, deps: HostImageDeps): Promise<HostImage> {
  const machine = deps.machineRoot ?? '/'
  const tops = await readTops(machine)
  const binds = [
    { source: '/usr', target: '/usr' },
    ...tops
      .filter(({ target }) => target === undefined)
      .map(({ name }) => ({ source: `/${name}`, target: `/${name}` })),
  ]
  const stamp = await stampOf(machine, tops)
  const present = await readPresent(directory, stamp)
  if (present !== undefined) return { image: present, binds }
  const folder = dirname(directory)
  await mkdir(folder, { recursive: true, mode: 0o700 })
  await cleanUpPending(folder)
  const building = join(folder, hiddenName(STALE_COPY, deps.random))
  try {
    const parts = { tops, copied: await expand(machine), python: await missingPython(machine) }
    const bytes = fillRootfs(join(building, 'rootfs'), machine, parts)
    const image: ImageInfo = {
      name: basename(directory),
      source: 'host',
      createdAtMs: deps.clock.nowMs(),
      bytes,
      packages: false,
    }
    await writeFile(join(building, 'image.json'), `${JSON.stringify({ ...image, stamp })}\n`)
    const old = join(folder, hiddenName(STALE_COPY, deps.random))
    const hadOld = await rename(directory, old).then(
      () => true,
      () => false,
    )
    await rename(building, directory)
    if (hadOld) await rm(old, { recursive: true, force: true })
    return { image, binds }
  } catch (error) {
    await rm(building, { recursive: true, force: true })
    throw error
  }
}

/** A prefix of its own, because the process that builds images removes unfinished files under its own prefix. */
const STALE_COPY = 'assembling'

async function cleanUpPending(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    if (name.startsWith(`.${STALE_COPY}-`)) await rm(join(folder, name), { recursive: true, force: true })
  }
}

type Top = Readonly<{ name: string; target: string | undefined }>

/** The top-level folders of programs and libraries beside `/usr`: links into it on most machines, directories on some. */
async function readTops(machine: string): Promise<readonly Top[]> {
  const found: Top[] = []
  for (const name of topLinks) {
    const path = join(machine, name)
    const info = await lstat(path).catch(() => undefined)
    if (info?.isSymbolicLink() === true) found.push({ name, target: await readlink(path) })
    else if (info?.isDirectory() === true) found.push({ name, target: undefined })
  }
  return found
}

/** Changes whenever the image would. A few files are enough: any relevant change touches one of them. */
async function stampOf(machine: string, tops: readonly Top[]): Promise<string> {
  const release = await readFile(join(machine, 'etc/os-release'), 'utf8').catch(() => '')
  const facts: unknown[] = [FORMAT, tops, release, await expand(machine), await missingPython(machine)]
  for (const name of ['ld.so.cache', 'ld.so.conf.d', 'alternatives', 'ssl/certs', 'ssl/certs/ca-certificates.crt']) {
    const info = await stat(join(machine, 'etc', name)).catch(() => undefined)
    facts.push([name, info?.mtimeMs, info?.size])
  }
  return sha256Hex(JSON.stringify(facts))
}

async function readPresent(directory: string, stamp: string): Promise<ImageInfo | undefined> {
  try {
    const { stamp: found, ...image } = JSON.parse(
      await readFile(join(directory, 'image.json'), 'utf8'),
    ) as ImageInfo & {
      stamp: string
    }
    return found === stamp ? image : undefined
  } catch {
    return undefined
  }
}

/** The names to copy, with a final `*` expanded. */
async function expand(machine: string): Promise<string[]> {
  const names = await readdir(join(machine, 'etc')).catch(() => [])
  return copiedFromEtc.flatMap((pattern) =>
    pattern.endsWith('*') ? names.filter((name) => name.startsWith(pattern.slice(0, -1))).sort() : [pattern],
  )
}

/**
 * Without giving up the turn: these are a thousand small steps, and each would take several times as long in another thread. Workspaces
 * wait for the image anyway.
 */
function fillRootfs(rootfs: string, machine: string, parts: RootfsParts): number {
  makeDirectory(rootfs, 0o755)
  for (const [name, mode] of Object.entries(directories)) makeDirectory(join(rootfs, name), mode)
  for (const { name, target } of parts.tops) {
    if (target === undefined) makeDirectory(join(rootfs, name), 0o755)
    else symlinkSync(target, join(rootfs, name))
  }
  symlinkSync('/run', join(rootfs, 'var/run'))
  symlinkSync('/proc/self/mounts', join(rootfs, 'etc/mtab'))
  let bytes = 0
  for (const name of parts.copied) {
    makeParents(join(rootfs, 'etc', name))
    bytes += copyPublic(join(machine, 'etc', name), join(rootfs, 'etc', name), 0)
  }
  const hasBash = statusOf(join(machine, 'usr/bin/bash')) !== undefined
  for (const [name, text] of Object.entries(writtenFiles(hasBash ? '/bin/bash' : '/bin/sh'))) {
    makeParents(join(rootfs, name))
    writePlainFile(join(rootfs, name), text)
    bytes += text.length
  }
  if (parts.python !== undefined) {
    makeParents(join(rootfs, PYTHON_LINK))
    symlinkSync(parts.python, join(rootfs, PYTHON_LINK))
  }
  return bytes
}

type RootfsParts = Readonly<{
  tops: readonly Top[]
  /** Below `/etc`. */
  copied: readonly string[]
  /** Where the link to Python leads, if the machine has none. */
  python: string | undefined
}>

const pythonFolders = ['usr/local/bin', 'usr/bin'] as const

/** Programs call `python` as often as `python3`. Returns a target for the name that the machine lacks. */
async function missingPython(machine: string): Promise<string | undefined> {
  const found = async (name: string): Promise<string | undefined> => {
    for (const folder of pythonFolders) {
      const info = await lstat(join(machine, folder, name)).catch(() => undefined)
      if (info !== undefined) return `/${folder}/${name}`
    }
    return undefined
  }
  return (await found('python')) === undefined ? await found('python3') : undefined
}

/** The caller's umask must not decide the mode, nor that of created parents. */
function makeDirectory(path: string, mode: number): void {
  makeParents(path)
  mkdirSync(path, { recursive: true })
  chmodSync(path, mode)
}

function makeParents(path: string): void {
  const parent = dirname(path)
  const first = mkdirSync(parent, { recursive: true })
  if (first === undefined) return
  for (let made = parent; made.length >= first.length; made = dirname(made)) chmodSync(made, 0o755)
}

function writePlainFile(path: string, content: string | Uint8Array): void {
  writeFileSync(path, content)
  chmodSync(path, 0o644)
}

/** Copies only world-readable files, and never a private key, whatever its mode. */
function copyPublic(source: string, target: string, depth: number): number {
  const info = statusOf(source)
  if (info === undefined || depth > COPY_DEPTH_MAX) return 0
  if (info.isSymbolicLink()) {
    symlinkSync(readlinkSync(source), target)
    return 0
  }
  if (info.isDirectory() && (info.mode & 0o005) === 0o005) {
    makeDirectory(target, 0o755)
    let bytes = 0
    for (const name of readdirSync(source)) bytes += copyPublic(join(source, name), join(target, name), depth + 1)
    return bytes
  }
  if (!info.isFile() || (info.mode & 0o004) === 0 || info.size > COPIED_BYTES_MAX) return 0
  const content = readFileSync(source)
  if (content.includes('PRIVATE KEY')) return 0
  writePlainFile(target, content)
  return content.length
}

/** Undefined if there is none, or it cannot be reached. */
function statusOf(path: string): Stats | undefined {
  try {
    return lstatSync(path)
  } catch {
    return undefined
  }
}
