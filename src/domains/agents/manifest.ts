import type { z } from 'zod'
import { type CheckedManifest, fitShape, type ParsedManifest, readOrErrors, refusalOf } from '../manifests/fit-shape.ts'
import { createParseCache } from '../manifests/parse-cache.ts'
import { millicores, sizeBytes } from '../manifests/units.ts'
import { modernise } from './legacy-spellings.ts'
import { checkManifest, runsCommands, worksInWorkspace } from './manifest-checks.ts'
import { agentManifestSchema } from './manifest-schema.ts'
import { type AgentManifest, normalised } from './normalised-manifest.ts'
import { unknownNames } from './prompt-names.ts'
import { securityPathOf } from './security-fields.ts'

export { refusalOf } from '../manifests/fit-shape.ts'
export type { AgentManifest } from './normalised-manifest.ts'

const textFields = [
  /^metadata\.(?:version|name|description)$/,
  /^metadata\.(?:labels|annotations)\../,
  /^spec\.env\.[^.]+$/,
  /^spec\.env\.\d+\.value$/,
  /^spec\.runtime\.version$/,
]

/** Never throws. Returns a manifest, or all of its errors. */
export const checkAgentManifest = createParseCache(check, ({ ok }) => ok)

function check(yaml: string): CheckedManifest<AgentManifest> {
  const read = readOrErrors(yaml, textFields)
  if ('errors' in read) return { ok: false, errors: read.errors, warnings: [] }
  const warnings = read.unquoted.map((field) => `${field}: a string is expected; put the value in quotes`)
  const errors: string[] = []
  const warn = (field: string, advice: string) => warnings.push(`${field}: old or loose spelling; ${advice}`)
  modernise(read.fields, warn, (field, problem) => errors.push(`${field} ${problem}`))
  const shaped = fitShape(agentManifestSchema, read.fields, { warnings, securityPathOf })
  if ('errors' in shaped) return { ok: false, errors: [...errors, ...shaped.errors], warnings }
  checkManifest(shaped.value, (field, problem) => errors.push(`${field} ${problem}`))
  if (errors.length > 0) return { ok: false, errors, warnings }
  warnings.push(...warningsOf(shaped.value), ...unknownNames(shaped.value))
  return { ok: true, manifest: normalised(shaped.value), warnings }
}

/** Throws ERR_MANIFEST_INVALID: the message has the first error, the details all of them. */
export function parseAgentManifest(yaml: string): ParsedManifest<AgentManifest> {
  const checked = checkAgentManifest(yaml)
  if (!checked.ok) throw refusalOf(checked.errors)
  return { manifest: checked.manifest, warnings: checked.warnings }
}

const GIB = 1024 ** 3

/** Accepted fields that have no effect here, or a different one. */
function warningsOf({ spec }: z.output<typeof agentManifestSchema>): string[] {
  const list: string[] = []
  if (spec.execution?.memory === true) list.push('spec.execution.memory: it has no effect here')
  if (spec.type === 'system') list.push('spec.type: it has no effect; what an agent may do is in spec.security_context')
  if (spec.contexts !== undefined) list.push('spec.contexts: it has no effect here')
  const { filesystem } = spec.security
  const isWhole = (paths: readonly string[] = []): boolean =>
    paths.some((path) => /^\/(?:workspace)?(?:\/\*{1,2})?$/.test(path))
  if (filesystem !== undefined && runsCommands(spec) && !(isWhole(filesystem.read) && isWhole(filesystem.write))) {
    list.push('spec.security.filesystem: it applies to fs.* only; commands can reach everything in the workspace')
  }
  const { resources } = spec.security
  if (worksInWorkspace(spec)) {
    const cpu = millicores(resources.cpu)
    const whole = Math.max(1, Math.ceil(cpu / 1_000)) * 1_000
    if (cpu !== whole)
      list.push(`spec.security.resources.cpu: rounded up to ${whole}; a workspace has whole processors`)
    const least = 16 * 1024 ** 2
    if (sizeBytes(resources.memory) < least) {
      list.push('spec.security.resources.memory: raised to 16Mi, the minimum for a workspace')
    }
    const gib = Math.max(1, Math.ceil(sizeBytes(resources.disk) / GIB))
    if (sizeBytes(resources.disk) !== gib * GIB) {
      list.push(`spec.security.resources.disk: rounded up to ${gib}Gi; the disk of a workspace is a whole number of Gi`)
    }
  }
  if (spec.runtime.isolation === 'docker') {
    list.push('spec.runtime.isolation: docker is read as inherit; agents run in workspaces of the installation')
  }
  return list
}
