import type { z } from 'zod'
import type { AppError } from '../../contract/app-error.ts'
import { nearestName } from '../../kernel/nearest-name.ts'
import { isFields, manifestInvalid, pathText, type ReadYaml, readYaml, type YamlFields } from './read-yaml.ts'

export type ParsedManifest<Manifest> = Readonly<{ manifest: Manifest; warnings: readonly string[] }>
export type CheckedManifest<Manifest> =
  | Readonly<{ ok: true; manifest: Manifest; warnings: readonly string[] }>
  | Readonly<{ ok: false; errors: readonly string[]; warnings: readonly string[] }>

/** The message has the first fault, the details all of them. */
export function refusalOf(errors: readonly string[]): AppError {
  const more = errors.length > 1 ? ` (and ${errors.length - 1} more: see errors in the details)` : ''
  return manifestInvalid(`the manifest is refused: ${errors[0]}${more}`, { errors })
}

/** `texts` are the fields that are texts by definition, as paths joined by dots. */
export function readOrErrors(yaml: string, texts: readonly RegExp[]): ReadYaml | { errors: readonly string[] } {
  try {
    return readYaml(yaml, (path) => texts.some((pattern) => pattern.test(path.join('.'))))
  } catch (error) {
    return { errors: [(error as Error).message] }
  }
}

/** Where a field belongs that would close something, if it is the name of one. */
export type SecurityPathOf = (key: string) => Readonly<{ field: string; path: string }> | undefined

/** A hint is looked for among all names, and fields without one may be thousands. */
const HINTS_MAX = 100

/**
 * Fields that the schema does not know are taken out of `fields` and named in `warnings`; all else must fit. Those that would
 * close something if they stood elsewhere are refused.
 */
export function fitShape<Schema extends z.ZodType>(
  schema: Schema,
  fields: YamlFields,
  { warnings, securityPathOf }: Readonly<{ warnings: string[]; securityPathOf: SecurityPathOf }>,
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
        const security = securityPathOf(key)
        if (security !== undefined) {
          const { field, path: target } = security
          misplaced.push(
            `${pathText([...path, key])} has no effect here, and ignoring it would lift a restriction: ${field} goes into ${target}`,
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

export const at = (value: unknown, path: readonly PropertyKey[]): unknown =>
  path.reduce<unknown>((inner, part) => (inner as Record<PropertyKey, unknown> | undefined)?.[part], value)

/** The names that the schema has at a place, where it is a plain object; for hints only. */
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

function issueText(issue: z.core.$ZodIssue, fields: YamlFields): string {
  const field = issue.path.length === 0 ? 'the manifest' : pathText(issue.path)
  return `${field} ${problemOf(issue, at(fields, issue.path))}`
}

/** The rule that a value breaks, as the schema states it. */
export function problemOf(issue: z.core.$ZodIssue, value: unknown): string {
  if (issue.code === 'custom' || issue.code === 'invalid_key') return ruleOf(issue)
  if (value === undefined) {
    const choices = choicesOf(issue)
    if (choices.length > 1) return `is required; use one of ${choices.join(', ')}`
    if (issue.message.startsWith('is required')) return issue.message
    return isTelling(issue.message) ? `is required; it ${issue.message}` : 'is required'
  }
  if (value === null) return 'has no value: give it one, or leave it out'
  if (issue.code === 'too_big' && issue.origin === 'string') {
    return `must not be longer than ${issue.maximum} characters`
  }
  const near = typeof value === 'string' ? nearestName(value, choicesOf(issue)) : undefined
  return `${ruleOf(issue)}${near === undefined ? '' : `; did you mean ${near}?`}`
}

/** Of what is absent the type alone says little. */
const isTelling = (message: string): boolean =>
  message.startsWith('must ') && !/^must be (?:a string|an object|true or false)$/.test(message)

function ruleOf(issue: z.core.$ZodIssue): string {
  if (issue.code === 'invalid_key') return issue.issues[0]?.message ?? issue.message
  // Where the field that tells kinds apart is wrong, the rule of the whole group is told at that field.
  return issue.code === 'invalid_union' ? issue.message.replace(/^must have a \w+: /, 'must be ') : issue.message
}

function choicesOf(issue: z.core.$ZodIssue): readonly string[] {
  if (issue.code === 'invalid_value') return issue.values.map(String)
  return issue.code === 'invalid_union' && 'options' in issue ? (issue.options ?? []).map(String) : []
}
