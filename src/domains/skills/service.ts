import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import type { Logger } from '../../kernel/logger.ts'
import type { SkillParse } from './parse-skill.ts'
import type { SkillFileInfo, SkillLocation, SkillProblem, SkillScan, SkillSource } from './ports.ts'

type Skill = Readonly<{
  name: string
  version: string
  description: string
  capabilities: string[]
  path: string
}>

/** With the whole front matter, for transports that forward it. */
type SkillDetails = Skill & Readonly<{ frontmatter: Readonly<Record<string, Json>> }>

type SkillFilter = Readonly<{ search?: string | undefined; capability?: string | undefined }>
type SkillList = Readonly<{ skills: Skill[]; total_count: number }>

/**
 * The skills on disk, as they are now. They belong to the installation, not to a tenant. SKILL.md on disk is the only source:
 * nothing is stored, and an unreadable file is omitted and reported.
 */
export type SkillService = Readonly<{
  /** By name. `search` is part of the name or description in any case; `capability` is one of them exactly. */
  list(filter?: SkillFilter): Promise<SkillList>
  details(): Promise<readonly SkillDetails[]>
  problems(): Promise<readonly SkillProblem[]>
  /** ERR_SKILL_NOT_FOUND for an unknown name; otherwise as the source has it. */
  files(name: string): Promise<readonly SkillFileInfo[]>
  readFile(name: string, file: string): Promise<Uint8Array>
  /**
   * Called when skills or their files may have changed, perhaps more than once for one change. Covers what `list` and `files`
   * have read. Returns an unsubscribe function.
   */
  onChange(listener: () => void): () => void
}>

type SkillServiceDeps = Readonly<{ source: SkillSource; logger: Logger }>

type Entry = Readonly<{ location: SkillLocation; skill: SkillDetails }>
type Registry = Readonly<{
  scan: SkillScan
  entries: ReadonlyMap<string, Entry>
  problems: readonly SkillProblem[]
  signature: string
}>

export function createSkillService({ source, logger }: SkillServiceDeps): SkillService {
  const listeners = new Set<() => void>()
  const notify = (): void => {
    for (const listener of [...listeners]) listener()
  }
  const registry = createRegistry({ source, logger, changed: notify })
  let stopWatching: (() => void) | undefined

  const find = async (name: string): Promise<SkillLocation> => {
    const entry = (await registry.load()).entries.get(name)
    if (entry === undefined) {
      throw new AppError('ERR_SKILL_NOT_FOUND', 'name: there is no skill of this name; skill_list shows them', { name })
    }
    return entry.location
  }

  const reload = (): void => {
    const before = registry.signature()
    registry.load().then(
      (loaded) => {
        // The registry has reported changed front matter; here other files changed.
        if (loaded.signature === before) notify()
      },
      (error) => logger.warn('skills could not be reloaded', { cause: String(error) }),
    )
  }

  return {
    async list(filter = {}) {
      const skills: Skill[] = []
      for (const { skill } of (await registry.load()).entries.values()) {
        const { frontmatter: _, ...displayed } = skill
        if (matches(displayed, filter)) skills.push(displayed)
      }
      return { skills, total_count: skills.length }
    },
    details: async () => [...(await registry.load()).entries.values()].map((entry) => entry.skill),
    problems: async () => (await registry.load()).problems,
    files: async (name) => source.files(await find(name)),
    readFile: async (name, file) => source.readFile(await find(name), file, limits.skillFileBytesMax),
    onChange(listener) {
      listeners.add(listener)
      stopWatching ??= source.onChange(reload)
      return () => {
        listeners.delete(listener)
        if (listeners.size > 0) return
        stopWatching?.()
        stopWatching = undefined
      }
    },
  }
}

/** The parsed skills of the newest scan; a file is read again only if its stamp changed. */
function createRegistry({ source, logger, changed }: SkillServiceDeps & Readonly<{ changed: () => void }>) {
  const parsed = new Map<string, { stamp: string; parse: SkillParse }>()
  let current: Registry | undefined

  const parse = async (location: SkillLocation): Promise<SkillParse> => {
    const key = `${location.root}\0${location.name}`
    const known = parsed.get(key)
    if (known?.stamp === location.stamp) return known.parse
    const result = await readManifest(source, location)
    parsed.set(key, { stamp: location.stamp, parse: result })
    return result
  }

  return {
    signature: () => current?.signature,
    async load(): Promise<Registry> {
      const scan = await source.scan()
      if (current?.scan === scan) return current
      const next = await build(scan, parse)
      forgetRemoved(parsed, scan)
      for (const problem of next.problems) {
        if (!current?.problems.some((old) => old.path === problem.path && old.reason === problem.reason)) {
          logger.warn('skill skipped', { path: problem.path, reason: problem.reason })
        }
      }
      const isDifferent = current !== undefined && current.signature !== next.signature
      current = next
      if (isDifferent) changed()
      return next
    },
  }
}

async function build(scan: SkillScan, parse: (location: SkillLocation) => Promise<SkillParse>): Promise<Registry> {
  const entries = new Map<string, Entry>()
  const problems: SkillProblem[] = [...scan.problems]
  const parses = await Promise.all(scan.found.map(parse))
  for (const [index, location] of scan.found.entries()) {
    const { name, path } = location
    const result = parses[index]!
    if (entries.has(name)) {
      problems.push({ path, reason: 'an earlier root has a skill of this name; that one is used' })
    } else if (result.ok) {
      const { version, description, capabilities, frontmatter } = result.skill
      entries.set(name, { location, skill: { name, version, description, capabilities, path, frontmatter } })
    } else {
      problems.push({ path, reason: result.reason })
    }
  }
  const sorted = new Map([...entries].sort(([a], [b]) => (a < b ? -1 : 1)))
  const signature = JSON.stringify([...sorted.values()].map((entry) => entry.skill))
  return { scan, entries: sorted, problems, signature }
}

async function readManifest(source: SkillSource, location: SkillLocation): Promise<SkillParse> {
  try {
    const bytes = await source.readFile(location, 'SKILL.md', limits.skillManifestBytesMax)
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes)
    // The YAML library is loaded with the first skill, not with the program.
    const { parseSkill } = await import('./parse-skill.ts')
    return parseSkill(text)
  } catch (error) {
    if (error instanceof AppError) return { ok: false, reason: error.message }
    if (error instanceof TypeError) return { ok: false, reason: 'SKILL.md is not UTF-8 text' }
    return { ok: false, reason: `cannot be read: ${(error as NodeJS.ErrnoException).code ?? 'unknown error'}` }
  }
}

/** Keeps memory bounded by what is on disk. */
function forgetRemoved(parsed: Map<string, unknown>, scan: SkillScan): void {
  const present = new Set(scan.found.map((location) => `${location.root}\0${location.name}`))
  for (const key of parsed.keys()) if (!present.has(key)) parsed.delete(key)
}

function matches(skill: Skill, { search, capability }: SkillFilter): boolean {
  if (capability !== undefined && !skill.capabilities.includes(capability)) return false
  if (search === undefined) return true
  const query = search.toLowerCase()
  return skill.name.toLowerCase().includes(query) || skill.description.toLowerCase().includes(query)
}
