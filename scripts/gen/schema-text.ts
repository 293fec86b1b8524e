import { code } from './markdown.ts'

/** JSON Schema in words: a row for each field, nested ones with their path. */
export type Schema = Readonly<Record<string, unknown>>
export type FieldRow = Readonly<{
  path: string
  type: string
  required: boolean
  default: string
  limits: string
  description: string
}>

const branches = (schema: Schema): Schema[] => ((schema['anyOf'] ?? schema['oneOf'] ?? []) as Schema[]).slice()

export function typeText(schema: Schema): string {
  if ('const' in schema) return code(JSON.stringify(schema['const']))
  if ('enum' in schema) return (schema['enum'] as unknown[]).map((value) => code(String(value))).join(', ')
  const parts = branches(schema)
  if (parts.length > 0) return [...new Set(parts.map(typeText))].join(' or ')
  if (Array.isArray(schema['type'])) return schema['type'].join(' or ')
  if (schema['type'] === 'array') return `list of ${typeText((schema['items'] ?? {}) as Schema)}`
  return typeof schema['type'] === 'string' ? schema['type'] : 'any JSON'
}

/** Bounds as `1–256 characters`; a bound that only says "fits in a number" is left out. */
export function limitsText(schema: Schema): string {
  const texts = [
    range(schema['minimum'], schema['maximum'], ''),
    range(schema['minLength'], schema['maxLength'], ' characters'),
    range(schema['minItems'], schema['maxItems'], ' items'),
    typeof schema['pattern'] === 'string' ? code(schema['pattern']) : '',
    typeof schema['format'] === 'string' ? schema['format'] : '',
    schema['type'] === 'array' ? each(limitsText((schema['items'] ?? {}) as Schema)) : '',
    ...branches(schema).map(limitsText),
  ]
  return texts.filter((text) => text !== '').join('; ')
}

const each = (text: string): string => (text === '' ? '' : `each ${text}`)

function range(low: unknown, high: unknown, unit: string): string {
  const min = typeof low === 'number' && low > Number.MIN_SAFE_INTEGER ? low : undefined
  const max = typeof high === 'number' && high < Number.MAX_SAFE_INTEGER ? high : undefined
  if (min !== undefined && max !== undefined) return `${min}–${max}${unit}`
  if (max !== undefined) return `at most ${max}${unit}`
  return min === undefined ? '' : `at least ${min}${unit}`
}

export function fieldRows(schema: Schema, prefix = ''): FieldRow[] {
  const required = (schema['required'] ?? []) as readonly string[]
  return Object.entries((schema['properties'] ?? {}) as Record<string, Schema>).flatMap(([name, field]) => {
    const path = prefix + name
    const row: FieldRow = {
      path,
      type: typeText(field),
      required: required.includes(name),
      default: 'default' in field ? code(JSON.stringify(field['default'])) : '',
      limits: limitsText(field),
      description: typeof field['description'] === 'string' ? field['description'] : '',
    }
    const inner = [field, ...branches(field)]
    return [
      row,
      ...inner.flatMap((part) => fieldRows(part, `${path}.`)),
      ...inner.flatMap((part) => fieldRows((part['items'] ?? {}) as Schema, `${path}[].`)),
    ]
  })
}
