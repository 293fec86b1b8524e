/** JSON Schema as text: a row for each field, nested ones with their path. */
export type Schema = Readonly<Record<string, unknown>>
type FieldRow = Readonly<{
  path: string
  type: string
  required: boolean
  default: string
  limits: string
  description: string
}>

/** How a value or a pattern is set off from the words around it. */
type Quote = (text: string) => string

const branches = (schema: Schema): Schema[] => ((schema['anyOf'] ?? schema['oneOf'] ?? []) as Schema[]).slice()

function typeText(schema: Schema, quote: Quote): string {
  if ('const' in schema) return quote(JSON.stringify(schema['const']))
  if ('enum' in schema) return (schema['enum'] as unknown[]).map((value) => quote(String(value))).join(', ')
  const parts = branches(schema)
  if (parts.length > 0) return [...new Set(parts.map((part) => typeText(part, quote)))].join(' or ')
  if (Array.isArray(schema['type'])) return schema['type'].join(' or ')
  if (schema['type'] === 'array') return `list of ${typeText((schema['items'] ?? {}) as Schema, quote)}`
  return typeof schema['type'] === 'string' ? schema['type'] : 'any JSON'
}

/** Bounds as `1–256 characters`; a bound that only says "fits in a number" is left out. */
function limitsText(schema: Schema, quote: Quote): string {
  const texts = [
    range(schema['minimum'], schema['maximum'], ''),
    range(schema['minLength'], schema['maxLength'], ' characters'),
    range(schema['minItems'], schema['maxItems'], ' items'),
    typeof schema['pattern'] === 'string' ? quote(schema['pattern']) : '',
    typeof schema['format'] === 'string' ? schema['format'] : '',
    schema['type'] === 'array' ? each(limitsText((schema['items'] ?? {}) as Schema, quote)) : '',
    ...branches(schema).map((part) => limitsText(part, quote)),
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

export function fieldRows(schema: Schema, quote: Quote, prefix = ''): FieldRow[] {
  const required = (schema['required'] ?? []) as readonly string[]
  return Object.entries((schema['properties'] ?? {}) as Record<string, Schema>).flatMap(([name, field]) => {
    const path = prefix + name
    const row: FieldRow = {
      path,
      type: typeText(field, quote),
      required: required.includes(name),
      default: 'default' in field ? quote(JSON.stringify(field['default'])) : '',
      limits: limitsText(field, quote),
      description: typeof field['description'] === 'string' ? field['description'] : '',
    }
    const inner = [field, ...branches(field)]
    return [
      row,
      ...inner.flatMap((part) => fieldRows(part, quote, `${path}.`)),
      ...inner.flatMap((part) => fieldRows((part['items'] ?? {}) as Schema, quote, `${path}[].`)),
    ]
  })
}

/** For a terminal: one parameter a line, with what it may hold and what it means. */
export function parameterRows(inputSchema: Schema): string[][] {
  return fieldRows(inputSchema, (text) => text).map((row) => [
    row.path,
    [row.type, row.required ? 'required' : row.default === '' ? 'optional' : `default ${row.default}`, row.limits]
      .filter((part) => part !== '')
      .join('; '),
    row.description.replaceAll(/\s+/g, ' '),
  ])
}
