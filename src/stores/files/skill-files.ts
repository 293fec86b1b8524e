import { type BigIntStats, constants } from 'node:fs'
import { open, readdir, realpath, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import type { SkillFileInfo, SkillLocation } from '../../domains/skills/ports.ts'
import type { Clock } from '../../kernel/clock.ts'
import { sha256Hex } from '../../kernel/hash.ts'
import { isInside, SKILLS_FOLDER, type SkillBoundary } from './skill-boundary.ts'

const DIGESTS_MAX = 4_096

/** File times advance in steps: a file that changed this recently may change again without a new time. */
const UNSETTLED_MS = 100
let unsettledStamps = 0

/** Equal stamps mean equal content; a file that has just changed gets a unique stamp each time. */
export function stampOf(found: BigIntStats, clock: Clock): string {
  const stamp = `${found.dev}:${found.ino}:${found.size}:${found.mtimeNs}:${found.ctimeNs}`
  const settled = Math.abs(clock.nowMs() - Number(found.ctimeMs)) > UNSETTLED_MS
  return settled ? stamp : `${stamp}:${unsettledStamps++}`
}

type SkillFiles = Readonly<{
  list(location: SkillLocation): Promise<readonly SkillFileInfo[]>
  read(location: SkillLocation, file: string, bytesMax: number): Promise<Uint8Array>
}>

type SkillFilesDeps = Readonly<{
  clock: Clock
  watchBelow(owner: string, path: string): Promise<void>
  /** Checked for every use: links and folders may have changed since the skill was found. */
  boundary(): Promise<SkillBoundary>
}>

/** Reads inside one skill's folder and nowhere else. Digests are cached while a file's stamp stays the same. */
export function createSkillFiles({ clock, watchBelow, boundary }: SkillFilesDeps): SkillFiles {
  const digests = new Map<string, { stamp: string; sha256: string }>()

  const describe = async (skill: SkillFolder, file: string): Promise<SkillFileInfo | undefined> => {
    const path = await resolveInside(skill, file)
    if (path === undefined) return undefined
    const found = await stat(path, { bigint: true })
    if (!found.isFile()) return undefined
    if (found.size > limits.skillFileBytesMax) throw tooLarge(file, limits.skillFileBytesMax)
    const stamp = stampOf(found, clock)
    const known = digests.get(path)
    if (known?.stamp === stamp) return { file, sizeBytes: Number(found.size), sha256: known.sha256 }
    const bytes = await readBounded(path, file, limits.skillFileBytesMax)
    if (bytes === undefined) return undefined
    const sha256 = sha256Hex(bytes)
    if (digests.size >= DIGESTS_MAX) digests.clear()
    digests.set(path, { stamp, sha256 })
    return { file, sizeBytes: bytes.byteLength, sha256 }
  }

  return {
    async list(location) {
      const infos: SkillFileInfo[] = []
      let totalBytes = 0
      const skill = await openFolder(location, await boundary())
      if (skill === undefined) throw notFound(location)
      for (const file of await listNames(location, skill, watchBelow)) {
        const info = await describe(skill, file).catch(unlessMissing)
        if (info === undefined) continue
        totalBytes += info.sizeBytes
        if (totalBytes > limits.skillBytesMax) throw tooLarge('the skill', limits.skillBytesMax)
        infos.push(info)
      }
      return infos
    },
    async read(location, file, bytesMax) {
      const skill = await openFolder(location, await boundary()).catch(unlessMissing)
      const path = skill === undefined ? undefined : await resolveInside(skill, file).catch(unlessMissing)
      const bytes = path === undefined ? undefined : await readBounded(path, file, bytesMax).catch(unlessMissing)
      if (bytes === undefined) throw notFound(location, file)
      return bytes
    },
  }
}

const notFound = (location: SkillLocation, file?: string): AppError =>
  new AppError('ERR_NOT_FOUND', `file: no such file in skill ${location.name}`, {
    skill: location.name,
    ...(file === undefined ? {} : { file }),
  })

const skillFolder = (location: SkillLocation): string => join(location.root, SKILLS_FOLDER, location.name)

/** The real folder of a skill, and what may be touched in it. */
type SkillFolder = Readonly<{ folder: string; boundary: SkillBoundary }>

async function openFolder(location: SkillLocation, boundary: SkillBoundary): Promise<SkillFolder | undefined> {
  const folder = await realpath(skillFolder(location))
  return boundary.refusalOfSkill(folder) === undefined ? { folder, boundary } : undefined
}

async function listNames(
  location: SkillLocation,
  skill: SkillFolder,
  watchBelow: (owner: string, path: string) => Promise<void>,
): Promise<string[]> {
  const top = skillFolder(location)
  const names: string[] = []
  const folders = ['']
  for (let folder = folders.shift(); folder !== undefined; folder = folders.shift()) {
    if (folder !== '') await watchBelow(top, join(top, folder))
    const entries = await readdir(join(skill.folder, folder), { withFileTypes: true })
    for (const entry of entries) {
      if (entry.name.startsWith('.')) continue
      const name = folder === '' ? entry.name : `${folder}/${entry.name}`
      // A link to a folder is not entered, so that the walk ends; a link to a file is judged by its target.
      if (entry.isDirectory()) {
        if (name.split('/').length < limits.skillFolderDepthMax) folders.push(name)
      } else if (entry.isFile() || entry.isSymbolicLink()) names.push(name)
      if (names.length > limits.skillFilesMax || folders.length > limits.skillFilesMax) {
        throw new AppError('ERR_TOO_LARGE', `the skill ${location.name} has more than ${limits.skillFilesMax} files`, {
          skill: location.name,
        })
      }
    }
  }
  return names.sort()
}

/** The real path of a file of the skill, or undefined for a name that leads anywhere else. */
async function resolveInside({ folder, boundary }: SkillFolder, file: string): Promise<string | undefined> {
  const segments = file.split('/')
  const hasForeignSegment = segments.some((segment) => segment === '' || segment === '.' || segment === '..')
  if (hasForeignSegment || file.includes('\0') || file.includes('\\')) return undefined
  const path = await realpath(join(folder, ...segments))
  return path !== folder && isInside(folder, path) && !boundary.isProtected(path) ? path : undefined
}

/** Opens without following a last link or waiting on a pipe, and never reads more than it may. */
async function readBounded(path: string, file: string, bytesMax: number): Promise<Uint8Array | undefined> {
  const handle = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  try {
    const found = await handle.stat()
    if (!found.isFile()) return undefined
    if (found.size > bytesMax) throw tooLarge(file, bytesMax)
    const buffer = Buffer.allocUnsafe(found.size)
    let length = 0
    while (length < buffer.length) {
      const { bytesRead } = await handle.read(buffer, length, buffer.length - length, length)
      if (bytesRead === 0) break
      length += bytesRead
    }
    return buffer.subarray(0, length)
  } finally {
    await handle.close()
  }
}

const tooLarge = (what: string, bytesMax: number): AppError =>
  new AppError('ERR_TOO_LARGE', `${what} is larger than ${bytesMax} bytes, the largest size that is served`, {
    bytes_max: bytesMax,
  })

function unlessMissing(error: unknown): undefined {
  const { code } = error as NodeJS.ErrnoException
  if (code === 'ENOENT' || code === 'ENOTDIR' || code === 'ELOOP' || code === 'EACCES' || code === 'ENAMETOOLONG')
    return undefined
  throw error
}
