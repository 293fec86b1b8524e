import { constants, watch as watchFolder } from 'node:fs'
import { access, readdir, realpath, stat } from 'node:fs/promises'
import { join, sep } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { limits } from '../../contract/limits.ts'
import type { SkillLocation, SkillProblem, SkillScan, SkillSource } from '../../domains/skills/ports.ts'
import type { Clock } from '../../kernel/clock.ts'
import { createFolderWatch, type WatchFolder } from './folder-watch.ts'
import { findSkillBoundary, isInside, SKILLS_FOLDER, type SkillBoundary } from './skill-boundary.ts'
import { createSkillFiles, stampOf } from './skill-files.ts'

/** How long a scan is valid for a call: if folders are watched (in case a file system loses events), and if not. */
const WATCHED_AGE_MS = 30_000
const UNWATCHED_AGE_MS = 2_000

export type SkillSourceDeps = Readonly<{
  /** Folders that may hold `.agents/skills`; the first one wins. Missing ones are fine and may appear later. */
  roots: readonly string[]
  /** Directories of which only their own `.agents/skills` is ever touched, wherever links lead. */
  protectedDirectories: readonly string[]
  clock: Clock
  /** The system's folder watch, unless a test stands in for a system without one. */
  watch?: WatchFolder
}>

/**
 * Skills in `<root>/.agents/skills/<name>/SKILL.md`. The skills folders and each skill's own folder are watched, never a root
 * itself: a root may be the data directory, whose files change with every commit. A skills folder that appears, vanishes or is
 * replaced is found by one `stat` per call.
 */
export function createSkillSource(deps: SkillSourceDeps): SkillSource {
  const folders = createFolderWatch(deps.watch ?? watchFolder)
  const files = createSkillFiles({
    clock: deps.clock,
    watchBelow: folders.watchBelow,
    boundary: () => findSkillBoundary(deps.roots, deps.protectedDirectories),
  })
  let last: { scan: SkillScan; signature: string; folders: string; revision: number; atMs: number } | undefined
  let underWay: Promise<SkillScan> | undefined

  const isFresh = async (): Promise<boolean> => {
    if (last === undefined || last.revision !== folders.revision()) return false
    const ageMs = deps.clock.monotonicMs() - last.atMs
    if (ageMs > (folders.complete() ? WATCHED_AGE_MS : UNWATCHED_AGE_MS)) return false
    return last.folders === (await identifySkillsFolders(deps.roots))
  }

  const rescan = async (): Promise<SkillScan> => {
    const revision = folders.revision()
    const atMs = deps.clock.monotonicMs()
    const identity = await identifySkillsFolders(deps.roots)
    folders.begin()
    const scan = await scanRoots(deps, folders.watch)
    folders.end()
    const signature = JSON.stringify(scan)
    const retained = last?.signature === signature ? last.scan : scan
    last = { scan: retained, signature, folders: identity, revision, atMs }
    return retained
  }

  return {
    async scan() {
      // One turn of the event loop, so that changes the system has already reported are counted.
      await nextTurn()
      if (underWay !== undefined) await underWay.catch(() => undefined)
      if (await isFresh()) return last!.scan
      underWay ??= rescan().finally(() => {
        underWay = undefined
      })
      return underWay
    },
    files: (location) => files.list(location),
    readFile: (location, file, bytesMax) => files.read(location, file, bytesMax),
    onChange: (listener) => folders.onChange(listener),
    close: () => folders.close(),
  }
}

async function identifySkillsFolders(roots: readonly string[]): Promise<string> {
  const parts = await Promise.all(roots.map((root) => identify(join(root, SKILLS_FOLDER))))
  return parts.join('|')
}

async function identify(path: string): Promise<string> {
  const found = await stat(path, { bigint: true }).catch(() => undefined)
  return found === undefined ? '' : `${found.dev}:${found.ino}:${found.birthtimeNs}`
}

type Watch = (path: string) => Promise<void>

async function scanRoots(deps: SkillSourceDeps, watch: Watch): Promise<SkillScan> {
  const resolved = await Promise.all(deps.roots.map((root) => realpath(root).catch(() => undefined)))
  const realRoots = resolved.filter((root) => root !== undefined)
  const boundary = await findSkillBoundary(deps.roots, deps.protectedDirectories)
  const found: SkillLocation[] = []
  const problems: SkillProblem[] = []
  for (const root of new Set(realRoots)) {
    const names = await listSkillFolders(root, { boundary, watch }, problems)
    const looked = await Promise.all(names.map((name) => locate(root, name, { boundary, watch, clock: deps.clock })))
    for (const result of looked) {
      if (result === undefined) continue
      if ('stamp' in result) found.push(result)
      else problems.push(result)
    }
  }
  return { found, problems }
}

async function listSkillFolders(
  root: string,
  { boundary, watch }: Readonly<{ boundary: SkillBoundary; watch: Watch }>,
  problems: SkillProblem[],
): Promise<string[]> {
  const folder = join(root, SKILLS_FOLDER)
  try {
    const refusal = boundary.refusalOfSkillsFolder(await realpath(folder))
    if (refusal !== undefined) {
      problems.push({ path: toPortable(SKILLS_FOLDER), reason: refusal })
      return []
    }
    await watch(folder)
    const entries = await readdir(folder, { withFileTypes: true })
    const names = entries
      .filter((entry) => (entry.isDirectory() || entry.isSymbolicLink()) && !entry.name.startsWith('.'))
      .map((entry) => entry.name)
      .sort()
    if (names.length > limits.skillsPerRootMax) {
      problems.push({
        path: toPortable(SKILLS_FOLDER),
        reason: `more than ${limits.skillsPerRootMax} skills in one root: the others are left out`,
      })
    }
    return names.slice(0, limits.skillsPerRootMax)
  } catch (error) {
    if (!isMissing(error))
      problems.push({ path: toPortable(SKILLS_FOLDER), reason: `cannot be read: ${systemCode(error)}` })
    return []
  }
}

/** A folder without a SKILL.md is not a skill, and not a problem: people store other things there. */
async function locate(
  root: string,
  name: string,
  within: Readonly<{ boundary: SkillBoundary; watch: Watch; clock: Clock }>,
): Promise<SkillLocation | SkillProblem | undefined> {
  const folder = join(root, SKILLS_FOLDER, name)
  const path = toPortable(join(SKILLS_FOLDER, name, 'SKILL.md'))
  if (!/^[^\p{C}/\\]{1,128}$/u.test(name)) {
    return {
      path: toPortable(SKILLS_FOLDER),
      reason: 'the name of a skill folder is too long or has control characters',
    }
  }
  try {
    const realFolder = await realpath(folder)
    const refusal = within.boundary.refusalOfSkill(realFolder)
    if (refusal !== undefined) return { path, reason: refusal }
    await within.watch(folder)
    const manifest = join(folder, 'SKILL.md')
    if (!isInside(realFolder, await realpath(manifest))) {
      return { path, reason: 'SKILL.md is a link that leaves its folder' }
    }
    const found = await stat(manifest, { bigint: true })
    if (!found.isFile()) return { path, reason: 'SKILL.md is not a regular file' }
    if (found.size > limits.skillManifestBytesMax) {
      return { path, reason: `SKILL.md is larger than ${limits.skillManifestBytesMax} bytes` }
    }
    await access(manifest, constants.R_OK)
    return { root, name, path, stamp: stampOf(found, within.clock) }
  } catch (error) {
    return isMissing(error) ? undefined : { path, reason: `cannot be read: ${systemCode(error)}` }
  }
}

const toPortable = (path: string): string => (sep === '/' ? path : path.split(sep).join('/'))
const systemCode = (error: unknown): string => (error as NodeJS.ErrnoException).code ?? 'unknown error'
const isMissing = (error: unknown): boolean => ['ENOENT', 'ENOTDIR'].includes(systemCode(error))
