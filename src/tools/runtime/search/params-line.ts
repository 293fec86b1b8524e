import { isSchema, type JsonSchema, resolveReference, schemaList } from './schema-text.ts'

/**
 * A tool's input as one line: `id!:string; labels?:{key!:string, value!:string}[] — Tags of the task`.
 *
 * 1. `!` marks a required parameter, `?` an optional one; required ones come first, then code-unit order.
 * 2. Objects, and arrays of objects, are opened one level; deeper ones are `object`.
 * 3. A tool without input gives the empty string. Any schema gives a line of bounded length.
 */
const enumValuesMax = 20
const parametersMax = 100
const childrenMax = 40
const descriptionCharactersMax = 200
const variantsMax = 8
const arrayDepthMax = 4
const literalCharactersMax = 80

type Context = Readonly<{ root: JsonSchema; opens: boolean; arrayDepth: number }>
type Parameter = Readonly<{ name: string; schema: JsonSchema; required: boolean }>

export function paramsLine(inputSchema: JsonSchema): string {
  const parameters = parametersOf(inputSchema, inputSchema, 0)
  const context: Context = { root: inputSchema, opens: true, arrayDepth: 0 }
  const displayed = parameters.slice(0, parametersMax).map((parameter) => {
    const description = descriptionOf(parameter.schema, inputSchema)
    return render(parameter, context) + (description === '' ? '' : ` — ${description}`)
  })
  return withRest(displayed, parameters.length).join('; ')
}

/** The declared parameter names of an input schema, in the order of the line. */
export const parameterNames = (inputSchema: JsonSchema): string[] =>
  parametersOf(inputSchema, inputSchema, 0).map((parameter) => parameter.name)

/** The names that a call must give in every variant of the schema. */
export const requiredNames = (inputSchema: JsonSchema): string[] =>
  parametersOf(inputSchema, inputSchema, 0).flatMap((parameter) => (parameter.required ? [parameter.name] : []))

const render = (parameter: Parameter, context: Context): string =>
  `${oneLine(parameter.name)}${parameter.required ? '!' : '?'}:${typeOf(parameter.schema, context)}`

const withRest = (displayed: readonly string[], total: number): readonly string[] =>
  total > displayed.length ? [...displayed, `+${total - displayed.length} more`] : displayed

const oneLine = (text: string): string => text.replace(/[\s\p{Cc}]+/gu, ' ').trim()

function descriptionOf(schema: JsonSchema, root: JsonSchema): string {
  const own = schema['description'] ?? resolveReference(schema, root)?.['description']
  const text = typeof own === 'string' ? oneLine(own) : ''
  return text.length > descriptionCharactersMax ? `${text.slice(0, descriptionCharactersMax - 1).trimEnd()}…` : text
}

/** Variants of one object are merged; a parameter is required only if every variant requires it. */
function parametersOf(written: JsonSchema, root: JsonSchema, depth: number): Parameter[] {
  const schema = resolveReference(written, root)
  if (schema === undefined || depth > 4) return []
  const found = new Map<string, Parameter>()
  const add = (parameter: Parameter) => {
    const known = found.get(parameter.name)
    found.set(
      parameter.name,
      known === undefined ? parameter : { ...known, required: known.required || parameter.required },
    )
  }
  const required = new Set(Array.isArray(schema['required']) ? schema['required'] : [])
  for (const [name, child] of Object.entries(isSchema(schema['properties']) ? schema['properties'] : {})) {
    add({ name, schema: isSchema(child) ? child : {}, required: required.has(name) })
  }
  for (const part of schemaList(schema['allOf']))
    for (const parameter of parametersOf(part, root, depth + 1)) add(parameter)
  for (const key of ['anyOf', 'oneOf']) {
    const variants = schemaList(schema[key]).map((variant) => parametersOf(variant, root, depth + 1))
    for (const parameter of variants.flat()) {
      const always = variants.every((variant) =>
        variant.some((other) => other.name === parameter.name && other.required),
      )
      add({ ...parameter, required: always || required.has(parameter.name) })
    }
  }
  return [...found.values()].sort((a, b) => Number(b.required) - Number(a.required) || (a.name < b.name ? -1 : 1))
}

function typeOf(written: JsonSchema, context: Context): string {
  const schema = resolveReference(written, context.root)
  if (schema === undefined) return 'any'
  if (Array.isArray(schema['enum'])) return nullable(enumOf(schema['enum']), schema)
  if (Object.hasOwn(schema, 'const')) return enumOf([schema['const']])
  const variants = [...schemaList(schema['anyOf']), ...schemaList(schema['oneOf'])]
  if (variants.length > 0) return nullable(unionOf(variants, context), schema)
  const types = Array.isArray(schema['type'])
    ? schema['type'].filter((type) => typeof type === 'string')
    : [schema['type']]
  const names = types.map((type) => plainType(typeof type === 'string' ? type : undefined, schema, context))
  return nullable([...new Set(names)].join('|') || 'any', schema)
}

const nullable = (type: string, schema: JsonSchema): string =>
  schema['nullable'] === true && !type.split('|').includes('null') ? `${type}|null` : type

function plainType(type: string | undefined, schema: JsonSchema, context: Context): string {
  if (type === 'array' || (type === undefined && isSchema(schema['items']))) return arrayOf(schema, context)
  if (
    type === 'object' ||
    (type === undefined && (isSchema(schema['properties']) || schemaList(schema['allOf']).length > 0))
  ) {
    return objectOf(schema, context)
  }
  return type === undefined ? 'any' : oneLine(type).slice(0, literalCharactersMax)
}

function objectOf(schema: JsonSchema, context: Context): string {
  const children = context.opens ? parametersOf(schema, context.root, 0) : []
  if (children.length > 0) {
    const inner = { ...context, opens: false }
    const displayed = children.slice(0, childrenMax).map((child) => render(child, inner))
    return `{${withRest(displayed, children.length).join(', ')}}`
  }
  const values = schema['additionalProperties']
  const isRecord = isSchema(values) && Object.keys(values).length > 0 && context.arrayDepth < arrayDepthMax
  if (!isRecord) return 'object'
  return `record<${typeOf(values, { ...context, opens: false, arrayDepth: context.arrayDepth + 1 })}>`
}

function arrayOf(schema: JsonSchema, context: Context): string {
  const items = schema['items']
  if (!isSchema(items) || context.arrayDepth >= arrayDepthMax) return 'any[]'
  const item = typeOf(items, { ...context, arrayDepth: context.arrayDepth + 1 })
  return /^(\{.*\}|enum\(.*\)|[^|]*)$/.test(item) ? `${item}[]` : `(${item})[]`
}

/** Alternatives that are all literals make one enumeration. */
function unionOf(variants: readonly JsonSchema[], context: Context): string {
  const literals: unknown[] = []
  const rest: string[] = []
  for (const variant of variants.slice(0, 4 * variantsMax)) {
    const schema = resolveReference(variant, context.root) ?? {}
    if (Object.hasOwn(schema, 'const')) literals.push(schema['const'])
    else if (Array.isArray(schema['enum'])) literals.push(...schema['enum'])
    else if (context.arrayDepth >= arrayDepthMax) rest.push('any')
    else rest.push(typeOf(schema, { ...context, arrayDepth: context.arrayDepth + 1 }))
  }
  const all = [...new Set([...(literals.length > 0 ? [enumOf(literals)] : []), ...rest])]
  return withRest(all.slice(0, variantsMax), all.length).join('|')
}

function enumOf(values: readonly unknown[]): string {
  const displayed = values.slice(0, enumValuesMax).map((value) => {
    const text = oneLine(JSON.stringify(value) ?? 'null')
    return text.length > literalCharactersMax ? `${text.slice(0, literalCharactersMax - 1)}…` : text
  })
  return `enum(${withRest(displayed, values.length).join(',')})`
}
