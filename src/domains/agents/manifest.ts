import type { z } from 'zod'
import type { AppError } from '../../contract/app-error.ts'
import { nearestName } from '../../kernel/nearest-name.ts'
import { modernise } from './legacy-spellings.ts'
import { checkManifest, runsCommands, worksInWorkspace } from './manifest-checks.ts'
import { agentManifestSchema } from './manifest-schema.ts'
import { type AgentManifest, normalised } from './normalised-manifest.ts'
import { unknownNames } from './prompt-names.ts'
import { isFields, manifestInvalid, pathText, type ReadYaml, readYaml, type YamlFields } from './read-yaml.ts'
import { securityPlaceOf } from './security-fields.ts'
import { millicores, sizeBytes } from './units.ts'

export type { AgentManifest } from './normalised-manifest.ts'
export type ParsedManifest<Manifest> = Readonly<{ manifest: Manifest; warnings: readonly string[] }>
export type CheckedManifest<Manifest> =
  | Readonly<{ ok: true; manifest: Manifest; warnings: readonly string[] }>
  | Readonly<{ ok: false; errors: readonly string[]; warnings: readonly string[] }>

const textFields = [
  /^metadata\.(?:version|name|description)$/,
  /^metadata\.(?:labels|annotations)\../,
  /^spec\.env\.[^.]+$/,
  /^spec\.env\.\d+\.value$/,
  /^spec\.runtime\.version$/,
]

/** Total for text of anybody: a manifest or what is wrong with it, all of it. */
export function checkAgentManifest(yaml: string): CheckedManifest<AgentManifest> {
  const read = readOrErrors(yaml, textFields)
  if ('errors' in read) return { ok: false, errors: read.errors, warnings: [] }
  const warnings = read.unquoted.map((field) => `${field}: it is a text; put it in quotes`)
  const errors: string[] = []
  const warn = (field: string, advice: string) => warnings.push(`${field}: old or loose spelling; ${advice}`)
  modernise(read.fields, warn, (field, problem) => errors.push(`${field} ${problem}`))
  const shaped = fitShape(agentManifestSchema, read.fields, warnings)
  if ('errors' in shaped) return { ok: false, errors: [...errors, ...shaped.errors], warnings }
  checkManifest(shaped.value, (field, problem) => errors.push(`${field} ${problem}`))
  if (errors.length > 0) return { ok: false, errors, warnings }
  warnings.push(...warningsOf(shaped.value), ...unknownNames(shaped.value))
  return { ok: true, manifest: normalised(shaped.value), warnings }
}

/** Refuses with ERR_MANIFEST_INVALID: the message has the first fault, the details all of them. */
export function parseAgentManifest(yaml: string): ParsedManifest<AgentManifest> {
  const checked = checkAgentManifest(yaml)
  if (!checked.ok) throw refusalOf(checked.errors)
  return { manifest: checked.manifest, warnings: checked.warnings }
}

export function refusalOf(errors: readonly string[]): AppError {
  const more = errors.length > 1 ? ` (and ${errors.length - 1} more: see errors in the details)` : ''
  return manifestInvalid(`the manifest is refused: ${errors[0]}${more}`, { errors })
}

export function readOrErrors(yaml: string, texts: readonly RegExp[]): ReadYaml | { errors: readonly string[] } {
  try {
    return readYaml(yaml, (path) => texts.some((pattern) => pattern.test(path.join('.'))))
  } catch (error) {
    return { errors: [(error as Error).message] }
  }
}

/** A hint is looked for among all names, and fields without one may be thousands. */
const HINTS_MAX = 100

/**
 * Fields that the schema does not know are taken out of `fields` and named in `warnings`; all else must fit. Those that would
 * close something if they stood elsewhere are refused.
 */
export function fitShape<Schema extends z.ZodType>(
  schema: Schema,
  fields: YamlFields,
  warnings: string[],
): { value: z.output<Schema> } | { errors: readonly string[] } {
  const misplaced: string[] = []
  for (;;) {
    const result = schema.safeParse(fields)
    if (result.success) return misplaced.length > 0 ? { errors: misplaced } : { value: result.data }
    const unknown = result.error.issues.filter((issue) => issue.code === 'unrecognized_keys')
    for (const { path, keys } of unknown) {
      const owner = at(fields, path)
      if (!isFields(owner)) continue
      for (const key of keys) {
        delete owner[key]
        const security = securityPlaceOf(key)
        if (security !== undefined) {
          const { field, place } = security
          misplaced.push(
            `${pathText([...path, key])} has no effect here, and would leave open what it is to close: ${field} goes into ${place}`,
          )
          continue
        }
        const near = warnings.length < HINTS_MAX ? nearestName(key, knownKeys(schema, path)) : undefined
        warnings.push(
          `${pathText([...path, key])}: not a known field; it has no effect${near ? `. Did you mean ${near}?` : ''}`,
        )
      }
    }
    if (unknown.length > 0) continue
    const issues = result.error.issues.slice(0, 50).map((issue) => issueText(issue, fields))
    return { errors: [...new Set([...misplaced, ...issues])] }
  }
}

const at = (value: unknown, path: readonly PropertyKey[]): unknown =>
  path.reduce<unknown>((inner, part) => (inner as Record<PropertyKey, unknown> | undefined)?.[part], value)

/** The names that the schema has at a place, where it is a plain object; for hints only. */
function knownKeys(schema: z.ZodType, path: readonly PropertyKey[]): string[] {
  let place: unknown = schema
  for (const part of path) {
    const shape = shapeOf(place)
    place = typeof part === 'number' ? elementOf(place) : shape?.[String(part)]
  }
  return Object.keys(shapeOf(place) ?? {})
}

type Wrapped = { def?: { innerType?: unknown; shape?: Record<string, unknown>; element?: unknown } }
const unwrapped = (schema: unknown): Wrapped | undefined => {
  let inner = schema as Wrapped | undefined
  while (inner?.def?.innerType !== undefined) inner = inner.def.innerType as Wrapped
  return inner
}
const shapeOf = (schema: unknown) => unwrapped(schema)?.def?.shape
const elementOf = (schema: unknown) => unwrapped(schema)?.def?.element

function issueText(issue: z.core.$ZodIssue, fields: YamlFields): string {
  const field = issue.path.length === 0 ? 'the manifest' : pathText(issue.path)
  const value = at(fields, issue.path)
  if (value === undefined) return `${field} is required`
  if (value === null) return `${field} has no value: give it one, or leave it out`
  if (issue.code === 'too_big' && issue.origin === 'string') return `${field} must not be longer than ${issue.maximum}`
  // Where the type itself is wrong, the rule of the whole group is told at its type.
  return `${field} ${field.endsWith('.type') ? issue.message.replace(/^must have a type: /, 'must be ') : issue.message}`
}

const GIB = 1024 ** 3

/** What is accepted and has no effect here, or not quite the one that is written. */
function warningsOf({ spec }: z.output<typeof agentManifestSchema>): string[] {
  const list: string[] = []
  if (spec.execution?.memory === true) list.push('spec.execution.memory: it has no effect here')
  if (spec.type === 'system') list.push('spec.type: it has no effect; what an agent may do is in spec.security_context')
  if (spec.contexts !== undefined) list.push('spec.contexts: it has no effect here')
  const { filesystem } = spec.security
  const isWhole = (paths: readonly string[] = []): boolean =>
    paths.some((path) => /^\/(?:workspace)?(?:\/\*{1,2})?$/.test(path))
  if (filesystem !== undefined && runsCommands(spec) && !(isWhole(filesystem.read) && isWhole(filesystem.write))) {
    list.push('spec.security.filesystem: it binds fs.*; commands reach everything in the workspace')
  }
  const { resources } = spec.security
  if (worksInWorkspace(spec)) {
    const cpu = millicores(resources.cpu)
    const whole = Math.max(1, Math.ceil(cpu / 1_000)) * 1_000
    if (cpu !== whole) list.push(`spec.security.resources.cpu: taken as ${whole}; a workspace has whole processors`)
    const least = 16 * 1024 ** 2
    if (sizeBytes(resources.memory) < least) {
      list.push('spec.security.resources.memory: taken as 16Mi; a workspace has no less')
    }
    const gib = Math.max(1, Math.ceil(sizeBytes(resources.disk) / GIB))
    if (sizeBytes(resources.disk) !== gib * GIB) {
      list.push(`spec.security.resources.disk: taken as ${gib}Gi; the disk of a workspace has whole Gi`)
    }
  }
  if (spec.runtime.isolation === 'docker') {
    list.push('spec.runtime.isolation: docker is taken as inherit; agents run in workspaces of the installation')
  }
  return list
}
