import type { ParsedNode, YAMLMap } from 'yaml'
import { limits } from '../../contract/limits.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import { plainJson } from '../../kernel/plain-json.ts'
import { composeYaml } from '../templating/bounded-yaml.ts'
import { yamlAdvice } from '../templating/yaml-advice.ts'
import { yamlLibrary } from '../templating/yaml-library.ts'

/**
 * What a SKILL.md says. `frontmatter` is the whole front matter as plain data, unknown fields included; the other fields
 * are our reading of it. The skill's name is not here: it is the name of its folder.
 */
type ParsedSkill = Readonly<{
  version: string
  description: string
  capabilities: string[]
  frontmatter: Readonly<Record<string, Json>>
  body: string
}>

export type SkillParse = Readonly<{ ok: true; skill: ParsedSkill }> | Readonly<{ ok: false; reason: string }>

const VERSION_WHEN_MISSING = '0.0.0'
const NESTING_MAX = 16

class Unreadable extends Error {}

/** Total: any text gives a skill or a reason, never an exception, in bounded time. */
export function parseSkill(text: string): SkillParse {
  try {
    const { yaml, body } = splitFrontmatter(text)
    const fields = readFields(yaml)
    return {
      ok: true,
      skill: {
        version: scalarText(pick(fields, 'version'), 'version') ?? VERSION_WHEN_MISSING,
        description: readDescription(fields),
        capabilities: readCapabilities(pick(fields, 'capabilities')),
        frontmatter: plainData(fields),
        body,
      },
    }
  } catch (error) {
    if (error instanceof Unreadable) return { ok: false, reason: error.message }
    return { ok: false, reason: 'the front matter cannot be read as YAML' }
  }
}

function splitFrontmatter(text: string): { yaml: string; body: string } {
  const start = text.startsWith('\uFEFF') ? 1 : 0
  const first = lineAt(text, start)
  if (first.line !== '---') throw new Unreadable('the first line is not "---": front matter is missing')
  for (let at = first.next; at < text.length; ) {
    const { line, next } = lineAt(text, at)
    if (line === '---') return { yaml: text.slice(first.next, at), body: text.slice(next) }
    if (next - first.next > limits.skillFrontmatterCharsMax) {
      throw new Unreadable(`the front matter is longer than ${limits.skillFrontmatterCharsMax} characters`)
    }
    at = next
  }
  throw new Unreadable('the front matter is not closed by a line "---"')
}

function lineAt(text: string, at: number): { line: string; next: number } {
  const end = text.indexOf('\n', at)
  return end < 0
    ? { line: text.slice(at).trimEnd(), next: text.length }
    : { line: text.slice(at, end).trimEnd(), next: end + 1 }
}

function readFields(yaml: string): YAMLMap {
  const composed = composeYaml(yaml, {
    depthMax: NESTING_MAX,
    valuesMax: limits.skillFrontmatterCharsMax,
    warnings: 'refused',
  })
  if ('problem' in composed) {
    const { code, line } = composed.problem
    if (code === 'TOO_DEEP') throw new Unreadable(`the front matter is nested deeper than ${NESTING_MAX} levels`)
    throw new Unreadable(`the front matter is not valid YAML: ${yamlAdvice(code)} (line ${line + 1})`)
  }
  const { document } = composed
  yamlLibrary().visit(document, {
    Alias() {
      throw new Unreadable('the front matter uses a YAML alias, which is not accepted')
    },
  })
  if (document.contents === null) throw new Unreadable('the front matter is empty')
  if (!yamlLibrary().isMap(document.contents)) throw new Unreadable('the front matter is not an object')
  return document.contents
}

/** YAML has numbers that JSON has not (`.inf`): they become null. */
const plainData = (fields: YAMLMap): Record<string, Json> => plainJson(fields.toJSON()) as Record<string, Json>

/** The Agent Skills convention keeps fields that it does not define itself under `metadata`. */
function pick(fields: YAMLMap, name: string): unknown {
  const own = fields.get(name, true)
  if (own !== undefined) return own
  const metadata = fields.get('metadata', true)
  return yamlLibrary().isMap(metadata) ? metadata.get(name, true) : undefined
}

/** A plain scalar as it was written, so that `version: 1.0` stays `1.0`. */
function scalarText(node: unknown, field: string): string | undefined {
  if (node === undefined || isEmptyNode(node)) return undefined
  if (!yamlLibrary().isScalar(node) || yamlLibrary().isAlias(node)) throw new Unreadable(`${field} is not a string`)
  const text = typeof node.value === 'string' ? node.value : (node.source ?? String(node.value))
  return text.trim()
}

const isEmptyNode = (node: unknown): boolean => yamlLibrary().isScalar(node) && node.value === null

function readDescription(fields: YAMLMap): string {
  const description = scalarText(fields.get('description', true), 'description') ?? ''
  if (description.length > limits.skillDescriptionCharsMax) {
    throw new Unreadable(`description is longer than ${limits.skillDescriptionCharsMax} characters`)
  }
  return description
}

function readCapabilities(node: unknown): string[] {
  if (node === undefined || isEmptyNode(node)) return []
  const listed = yamlLibrary().isSeq(node)
    ? (node.items as ParsedNode[]).map((item) => scalarText(item, 'a capability') ?? '')
    : (scalarText(node, 'capabilities') ?? '').split(',').map((part) => part.trim())
  const capabilities = [...new Set(listed.filter((capability) => capability !== ''))]
  if (capabilities.length > limits.skillCapabilitiesMax) {
    throw new Unreadable(`more than ${limits.skillCapabilitiesMax} capabilities are listed`)
  }
  for (const capability of capabilities) {
    if (capability.length > limits.skillCapabilityCharsMax) {
      throw new Unreadable(`a capability is longer than ${limits.skillCapabilityCharsMax} characters`)
    }
  }
  return capabilities
}
