import type { z } from 'zod'
import type { AppError } from '../../contract/app-error.ts'
import { nearestName } from '../../kernel/nearest-name.ts'
import { quoted } from './findings.ts'
import { isFields, manifestInvalid, pathText, type ReadYaml, readYaml, type YamlFields } from './read-yaml.ts'

export type ParsedManifest<Manifest> = Readonly<{ manifest: Manifest; warnings: readonly string[] }>
export type CheckedManifest<Manifest> =
  | Readonly<{ ok: true; manifest: Manifest; warnings: readonly string[] }>
  | Readonly<{ ok: false; errors: readonly string[]; warnings: readonly string[] }>

/** The message has the first error, the details all of them. */
export function refusalOf(errors: readonly string[]): AppError {
  const more = errors.length > 1 ? ` (and ${errors.length - 1} more: see errors in the details)` : ''
  return manifestInvalid(`the manifest is refused: ${errors[0]}${more}`, { errors })
}

/** `texts` are patterns of the paths of string fields, joined by dots. */
export function readOrErrors(yaml: string, texts: readonly RegExp[]): ReadYaml | { errors: readonly string[] } {
  try {
    return readYaml(yaml, (path) => texts.some((pattern) => pattern.test(path.join('.'))))
  } catch (error) {
    return { errors: [(error as Error).message] }
  }
}

/** The right path of a security field, if the key is the name of one. */
export type SecurityPathOf = (key: string) => Readonly<{ field: string; path: string }> | undefined

/** A hint compares a name with all known names, and there may be thousands of unknown fields. */
const HINTS_MAX = 100

/**
 * Removes fields from `fields` that the schema does not know and lists them in `warnings`; the rest must conform. A misplaced
 * security field is refused.
 */
export function fitShape<Schema extends z.ZodType>(
  schema: Schema,
  fields: YamlFields,
  { warnings, securityPathOf }: Readonly<{ warnings: string[]; securityPathOf: SecurityPathOf }>,
): { value: z.output<Schema> } | { errors: readonly string[] } {
  const misplaced: string[] = []
  const misspelt = new Map<string, string>()
  for (;;) {
    const result = schema.safeParse(fields)
    if (result.success) return misplaced.length > 0 ? { errors: misplaced } : { value: result.data }
    const unknown = result.error.issues.filter((issue) => issue.code === 'unrecognized_keys')
    for (const { path, keys } of unknown) {
      const owner = at(fields, path)
      if (!isFields(owner)) continue
      for (const key of keys) {
        delete owner[key]
        const security = securityPathOf(key)
        if (security !== undefined) {
          const { field, path: target } = security
          misplaced.push(
            `${pathText([...path, key])} has no effect here, and ignoring it would remove a restriction: set ${field} in ${target}`,
          )
          continue
        }
        const near = warnings.length < HINTS_MAX ? nearestName(key, knownKeys(schema, path)) : undefined
        if (near !== undefined) misspelt.set(pathText([...path, near]), key)
        warnings.push(
          `${pathText([...path, key])}: not a known field; it has no effect${near ? `. Did you mean ${near}?` : ''}`,
        )
      }
    }
    if (unknown.length > 0) continue
    const issues = result.error.issues.slice(0, 50).map((issue) => issueText(issue, fields, misspelt))
    return { errors: [...new Set([...misplaced, ...issues])] }
  }
}

export const at = (value: unknown, path: readonly PropertyKey[]): unknown =>
  path.reduce<unknown>((inner, part) => (inner as Record<PropertyKey, unknown> | undefined)?.[part], value)

/** The keys of the schema at a path, if it is a plain object there. For hints only. */
function knownKeys(schema: z.ZodType, path: readonly PropertyKey[]): string[] {
  let subschema: unknown = schema
  for (const part of path) {
    const shape = shapeOf(subschema)
    subschema = typeof part === 'number' ? elementOf(subschema) : shape?.[String(part)]
  }
  return Object.keys(shapeOf(subschema) ?? {})
}

type Wrapped = { def?: { innerType?: unknown; in?: unknown; shape?: Record<string, unknown>; element?: unknown } }
const unwrapped = (schema: unknown): Wrapped | undefined => {
  const inner = schema as Wrapped | undefined
  const next = inner?.def?.innerType ?? inner?.def?.in
  return next === undefined ? inner : unwrapped(next)
}
const shapeOf = (schema: unknown) => unwrapped(schema)?.def?.shape
const elementOf = (schema: unknown) => unwrapped(schema)?.def?.element

/** Unknown fields that were ignored, by the path of the known one that each is like. */
export type Misspelt = ReadonlyMap<string, string>

function issueText(issue: z.core.$ZodIssue, fields: YamlFields, misspelt: Misspelt): string {
  const field = issue.path.length === 0 ? 'the manifest' : pathText(issue.path)
  const value = at(fields, issue.path)
  return `${field} ${problemOf(issue, value, misspelt.get(field))}`
}

/** The rule that a value breaks, in the words of the schema. `misspelt` is an unknown field with a similar name. */
export function problemOf(issue: z.core.$ZodIssue, value: unknown, misspelt?: string): string {
  if (issue.code === 'custom' || issue.code === 'invalid_key') return ruleOf(issue)
  if (value === undefined && misspelt !== undefined) {
    return `is required; ${quoted(misspelt)} is not a field: did you mean ${String(issue.path.at(-1))}?`
  }
  if (value === undefined) {
    const choices = choicesOf(issue)
    if (choices.length > 1) return `is required; use one of ${choices.join(', ')}`
    if (issue.message.startsWith('is required')) return issue.message
    return isTelling(issue.message) ? `is required; it ${issue.message}` : 'is required'
  }
  if (value === null) return 'has no value: set one, or omit the field'
  if (issue.code === 'too_big' && issue.origin === 'string') {
    return `must not be longer than ${issue.maximum} characters`
  }
  const choices = choicesOf(issue)
  // The rule itself names a single choice.
  const near = typeof value === 'string' && choices.length > 1 ? nearestName(value, choices) : undefined
  return `${ruleOf(issue)}${near === undefined ? '' : `; did you mean ${near}?`}`
}

/** For a missing value the type alone says little. */
const isTelling = (message: string): boolean =>
  message.startsWith('must ') && !/^must be (?:a string|an object|true or false)$/.test(message)

function ruleOf(issue: z.core.$ZodIssue): string {
  if (issue.code === 'invalid_key') return issue.issues[0]?.message ?? issue.message
  // If the discriminator is wrong, the rule of the whole union is reported at that field.
  return issue.code === 'invalid_union' ? issue.message.replace(/^must have a \w+: /, 'must be ') : issue.message
}

function choicesOf(issue: z.core.$ZodIssue): readonly string[] {
  if (issue.code === 'invalid_value') return issue.values.map(String)
  return issue.code === 'invalid_union' && 'options' in issue ? (issue.options ?? []).map(String) : []
}
