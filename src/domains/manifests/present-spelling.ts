import { z } from 'zod'
import { nearestName } from '../../kernel/nearest-name.ts'
import type { Findings } from './findings.ts'
import type { Misspelt, SecurityPathOf } from './fit-shape.ts'
import { isFields, pathText, type YamlFields } from './read-yaml.ts'

/** For a value at its path; `key` is a field below it. */
export type Notes = Readonly<{
  path: readonly PropertyKey[]
  warn(problem: string, key?: string): void
  error(problem: string, key?: string): void
}>

/** What a schema accepts beside its current spelling. */
type Looseness = Readonly<{
  /** Legacy names of fields, each with the current one. */
  renamed?: Readonly<Record<string, string>>
  /** Converts a value, or its absence (undefined), to the current spelling. Changes are reported in `notes`. */
  read?: (value: unknown, notes: Notes) => unknown
  /** Changes the fields of a map in place, after all of them have their current names. */
  complete?: (fields: YamlFields, notes: Notes) => void
}>

const loosenesses = z.registry<Looseness>()

/** To be called last: methods that derive another schema (`describe`, `min`) drop the looseness, wrappers keep it. */
export const loosely = <Schema extends z.ZodType>(schema: Schema, looseness: Looseness): Schema => {
  loosenesses.add(schema, looseness)
  return schema
}

type Walk = Readonly<{
  findings: Findings
  securityPathOf: SecurityPathOf
  refused: Set<string>
  misspelt: Map<string, string>
}>

/**
 * Converts a manifest from an older or looser spelling to the one that its schema describes; each change is a warning. Unknown
 * fields are dropped with a warning, or refused if they are misplaced security fields. `refused` are the paths that already have
 * an error, `misspelt` the dropped fields by the path of the known one that each is like.
 */
export function presentSpelling(
  schema: z.ZodType,
  fields: YamlFields,
  means: Omit<Walk, 'refused' | 'misspelt'>,
): Readonly<{ fields: unknown; refused: ReadonlySet<string>; misspelt: Misspelt }> {
  const refused = new Set<string>()
  const misspelt = new Map<string, string>()
  return { fields: present(schema, fields, [], { ...means, refused, misspelt }), refused, misspelt }
}

export const fieldText = (path: readonly PropertyKey[]): string =>
  path.length === 0 ? 'manifest' : pathText(path.map((part) => (typeof part === 'string' ? shortName(part) : part)))

const shortName = (name: string): string => name.slice(0, 64).toWellFormed()

function notesAt(path: readonly PropertyKey[], { findings, refused }: Walk): Notes {
  const at = (key: string | undefined): string => fieldText(key === undefined ? path : [...path, ...key.split('.')])
  return {
    path,
    warn: (problem, key) => findings.warn(at(key), problem),
    error(problem, key) {
      refused.add(at(key))
      findings.error(at(key), problem)
    },
  }
}

function present(schema: z.core.$ZodType, value: unknown, path: readonly PropertyKey[], walk: Walk): unknown {
  const looseness = loosenesses.get(schema as z.ZodType) ?? {}
  const { read } = looseness
  const input = read === undefined ? value : read(value, notesAt(path, walk))
  const { def } = (schema as z.core.$ZodTypes)._zod
  switch (def.type) {
    case 'optional':
    case 'default':
    case 'prefault':
      return present(def.innerType, input, path, walk)
    case 'pipe':
      return present(def.in, input, path, walk)
    case 'object':
      return isFields(input) ? presentObject(def.shape, looseness, input, path, walk) : input
    case 'record':
      return isFields(input) ? presentRecord(def.valueType, input, path, walk) : input
    case 'array':
      return Array.isArray(input)
        ? input.map((item, index) => present(def.element, item, [...path, index], walk))
        : input
    case 'union':
      return presentUnion(schema, input, path, walk)
    case 'string':
      return presentText(input, path, walk)
    case 'number':
      return typeof input === 'string' && input.trim() !== '' && Number.isFinite(Number(input)) ? Number(input) : input
    case 'enum':
      return presentChoice(Object.values(def.entries), input, path, walk)
    default:
      return input
  }
}

function presentObject(
  shape: z.core.$ZodLooseShape,
  { renamed = {}, complete }: Looseness,
  input: YamlFields,
  path: readonly PropertyKey[],
  walk: Walk,
): YamlFields {
  const taken = takeKnown(Object.keys(shape), renamed, input, path, walk)
  const fields: YamlFields = {}
  for (const [key, schema] of Object.entries(shape)) {
    const value = present(schema as z.core.$ZodType, taken.get(key), [...path, key], walk)
    if (value !== undefined) fields[key] = value
  }
  complete?.(fields, notesAt(path, walk))
  return fields
}

const snakeCase = (key: string): string => key.replace(/([a-z0-9])([A-Z])/g, '$1_$2').toLowerCase()

/** A field without a value counts as absent. */
function takeKnown(
  known: readonly string[],
  renamed: Readonly<Record<string, string>>,
  input: YamlFields,
  path: readonly PropertyKey[],
  { findings, securityPathOf, refused, misspelt }: Walk,
): ReadonlyMap<string, unknown> {
  const supplied = Object.entries(input).filter(([, value]) => value !== null && value !== undefined)
  const taken = new Map(supplied.filter(([key]) => known.includes(key)))
  for (const [key, value] of supplied) {
    if (known.includes(key)) continue
    const at = fieldText([...path, key])
    const now = Object.hasOwn(renamed, key) ? renamed[key]! : snakeCase(key)
    const target = securityPathOf(key)
    if (known.includes(now) && !taken.has(now)) {
      taken.set(now, value)
      findings.warn(at, `is an old spelling; write ${now}`)
    } else if (target !== undefined) {
      refused.add(at)
      findings.error(
        at,
        `has no effect here, and ignoring it would remove a restriction: set ${target.field} in ${target.path}`,
      )
    } else {
      const near = nearestName(key, known)
      if (near !== undefined) misspelt.set(fieldText([...path, near]), key)
      findings.warn(at, `is not a field here and is ignored${near ? `; did you mean ${near}?` : ''}`)
    }
  }
  return taken
}

function presentRecord(
  schema: z.core.$ZodType,
  input: YamlFields,
  path: readonly PropertyKey[],
  walk: Walk,
): YamlFields {
  if (schema._zod.def.type === 'unknown') return input
  const entries = Object.entries(input)
  return Object.fromEntries(entries.map(([name, value]) => [name, present(schema, value, [...path, name], walk)]))
}

/** Only a discriminated union is descended into. */
function presentUnion(schema: z.core.$ZodType, input: unknown, path: readonly PropertyKey[], walk: Walk): unknown {
  const union = schema as z.core.$ZodDiscriminatedUnion
  const { discriminator } = union._zod.def
  if (discriminator === undefined || !isFields(input)) return input
  const option = z.core.getDiscriminatedOption(union, input[discriminator] as never)
  return option === undefined ? input : present(option, input, path, walk)
}

function presentText(input: unknown, path: readonly PropertyKey[], { findings }: Walk): unknown {
  if (typeof input !== 'number' && typeof input !== 'boolean') return input
  findings.warn(fieldText(path), 'is read as a string; put it in quotes')
  return String(input)
}

function presentChoice(
  values: readonly unknown[],
  input: unknown,
  path: readonly PropertyKey[],
  { findings }: Walk,
): unknown {
  if (input === undefined || values.includes(input)) return input
  const normalized = String(input).toLowerCase().replaceAll('-', '_')
  const near = values.find((value) => String(value).toLowerCase() === normalized)
  if (near !== undefined) findings.warn(fieldText(path), `is an old spelling; write ${String(near)}`)
  return near ?? input
}
