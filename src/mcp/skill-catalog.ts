import { ProtocolError, ProtocolErrorCode, type Resource } from '@modelcontextprotocol/server'
import { DIRECTORY_MIME_TYPE, SKILL_LIMITS, type Skill, skillEntry } from '@modelcontextprotocol/server/ext/skills'
import { isPermitted } from '../contract/permissions.ts'
import type { Principal, TenantId } from '../contract/principal.ts'
import { sha256Hex } from '../kernel/hash.ts'
import type { Logger } from '../kernel/logger.ts'
import type { SkillSource, SkillSummary } from './skill-source.ts'

/**
 * The skills of a tenant as the skills extension publishes them.
 * 1. An entry names every file of its skill with size and digest; a file is served only while its bytes match.
 * 2. A skill that breaks the extension's rules is omitted and logged; the others are served.
 * 3. A principal without skill:read has none: it neither sees nor replaces its tenant's cache.
 * 4. The entries are built once and cached until the source reports a change.
 */
type SkillFile = Readonly<{ skill: string; path: string; digest: string; size: number; mimeType: string }>

type SkillSnapshot = Readonly<{
  skills: readonly Skill[]
  byUri: ReadonlyMap<string, Skill>
  files: ReadonlyMap<string, SkillFile>
  directories: ReadonlyMap<string, readonly Resource[]>
}>

type SkillContent = Readonly<{ uri: string; mimeType: string } & ({ text: string } | { blob: string })>

export type SkillCatalog = Readonly<{
  snapshot(principal: Principal): Promise<SkillSnapshot>
  read(principal: Principal, uri: string): Promise<SkillContent | undefined>
  clear(): void
}>

const TENANTS_MAX = 64
const noSkills: SkillSnapshot = { skills: [], byUri: new Map(), files: new Map(), directories: new Map() }

export function createSkillCatalog(deps: { source: SkillSource; logger: Logger }): SkillCatalog {
  const { source, logger } = deps
  const snapshots = new Map<TenantId, Promise<SkillSnapshot>>()

  async function snapshot(principal: Principal): Promise<SkillSnapshot> {
    if (!isPermitted(principal, 'skill:read')) return noSkills
    await source.refresh()
    let known = snapshots.get(principal.tenant)
    if (known === undefined) {
      known = build(source, logger, principal)
      known.catch(() => snapshots.delete(principal.tenant))
      if (snapshots.size >= TENANTS_MAX) snapshots.clear()
      snapshots.set(principal.tenant, known)
    }
    return known
  }

  return {
    snapshot,
    clear: () => snapshots.clear(),
    async read(principal, uri) {
      const canonical = canonicalUri(uri)
      const file = canonical === undefined ? undefined : (await snapshot(principal)).files.get(canonical)
      if (canonical === undefined || file === undefined) return undefined
      const bytes = await source.read(principal, file.skill, file.path)
      if (bytes === undefined) return undefined
      if (bytes.byteLength !== file.size || `sha256:${sha256Hex(bytes)}` !== file.digest) {
        snapshots.delete(principal.tenant)
        throw new ProtocolError(
          ProtocolErrorCode.InternalError,
          `${uri} changed since the skill was listed. List the skills again, then read it.`,
        )
      }
      const text = losslessText(bytes)
      return text === undefined
        ? { uri: canonical, mimeType: file.mimeType, blob: Buffer.from(bytes).toString('base64') }
        : { uri: canonical, mimeType: file.mimeType, text }
    },
  }
}

async function build(source: SkillSource, logger: Logger, principal: Principal): Promise<SkillSnapshot> {
  const skills: Skill[] = []
  const files = new Map<string, SkillFile>()
  const directories = new Map<string, Resource[]>()
  for (const summary of await source.list(principal)) {
    try {
      const skill = await entryOf(source, principal, summary)
      skills.push(skill)
      addFiles(skill, summary, files, directories)
    } catch (error) {
      logger.warn('A skill is not offered to MCP clients', { skill: summary.name, reason: String(error) })
    }
  }
  skills.sort((a, b) => compareText(a.uri, b.uri))
  for (const children of directories.values()) children.sort((a, b) => compareText(a.uri, b.uri))
  return { skills, byUri: new Map(skills.map((skill) => [skill.uri, skill])), files, directories }
}

async function entryOf(source: SkillSource, principal: Principal, summary: SkillSummary): Promise<Skill> {
  if (summary.files.length > SKILL_LIMITS.files) throw new RangeError(`more than ${SKILL_LIMITS.files} files`)
  const contents: Record<string, Uint8Array> = {}
  let bytesTotal = 0
  for (const path of summary.files) {
    const bytes = await source.read(principal, summary.name, path)
    if (bytes === undefined) throw new RangeError(`${path} is listed but cannot be read`)
    bytesTotal += bytes.byteLength
    if (bytesTotal > SKILL_LIMITS.bytes) throw new RangeError(`more than ${SKILL_LIMITS.bytes} bytes`)
    contents[path] = bytes
  }
  return skillEntry(summary.name, contents)
}

function addFiles(
  skill: Skill,
  summary: SkillSummary,
  files: Map<string, SkillFile>,
  directories: Map<string, Resource[]>,
): void {
  if (!Array.isArray(skill.resources)) return
  const rootUri = skill.uri.slice(0, -'/SKILL.md'.length)
  directories.set(rootUri, [])
  for (const { uri, digest, size } of skill.resources) {
    const path = uri
      .slice(rootUri.length + 1)
      .split('/')
      .map(decodeURIComponent)
      .join('/')
    const mimeType = mimeTypeOf(path)
    files.set(uri, { skill: summary.name, path, digest, size, mimeType })
    let child: Resource = { uri, name: path.slice(path.lastIndexOf('/') + 1), mimeType, size }
    for (let parent = parentUri(uri); ; parent = parentUri(parent)) {
      const known = directories.get(parent)
      if (known !== undefined) {
        known.push(child)
        break
      }
      directories.set(parent, [child])
      child = {
        uri: parent,
        name: decodeURIComponent(parent.slice(parent.lastIndexOf('/') + 1)),
        mimeType: DIRECTORY_MIME_TYPE,
      }
    }
  }
}

export function canonicalUri(uri: string): string | undefined {
  return URL.canParse(uri) ? new URL(uri).href : undefined
}

const parentUri = (uri: string): string => uri.slice(0, uri.lastIndexOf('/'))
const compareText = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

function losslessText(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    return undefined
  }
}

const mimeTypes: Readonly<Record<string, string>> = {
  md: 'text/markdown',
  txt: 'text/plain',
  json: 'application/json',
  yaml: 'application/yaml',
  yml: 'application/yaml',
  csv: 'text/csv',
  html: 'text/html',
  js: 'text/javascript',
  ts: 'text/typescript',
  py: 'text/x-python',
  sh: 'application/x-sh',
  svg: 'image/svg+xml',
  png: 'image/png',
  jpg: 'image/jpeg',
  pdf: 'application/pdf',
}

const mimeTypeOf = (path: string): string =>
  mimeTypes[path.slice(path.lastIndexOf('.') + 1).toLowerCase()] ?? 'application/octet-stream'
