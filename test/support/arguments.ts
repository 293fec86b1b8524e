import fc from 'fast-check'

/**
 * Arguments made from the JSON Schema that a tool lists, so that a tool added tomorrow is covered without anybody
 * thinking of it. What cannot be made from a schema fails here, loudly.
 */
export type Schema = Readonly<Record<string, unknown>>

const LENGTH_MAX = 40

export function validArguments(schema: Schema): fc.Arbitrary<Record<string, unknown>> {
  return fromSchema(schema, schema) as fc.Arbitrary<Record<string, unknown>>
}

export const propertiesOf = (schema: Schema): [string, Schema][] =>
  Object.entries((schema['properties'] ?? {}) as Record<string, Schema>)

function fromSchema(schema: Schema, root: Schema, depth = 0): fc.Arbitrary<unknown> {
  if ('const' in schema) return fc.constant(schema['const'])
  if ('enum' in schema) return fc.constantFrom(...(schema['enum'] as unknown[]))
  if ('$ref' in schema) return depth > 3 ? fc.constant(null) : fromSchema(referred(schema, root), root, depth + 1)
  for (const word of ['anyOf', 'oneOf']) {
    if (word in schema) return fc.oneof(...(schema[word] as Schema[]).map((part) => fromSchema(part, root, depth + 1)))
  }
  const { type } = schema
  if (Array.isArray(type)) return fc.oneof(...type.map((one) => fromSchema({ ...schema, type: one }, root, depth)))
  switch (type) {
    case 'string':
      return textFrom(schema)
    case 'integer':
      return fc.integer(rangeOf(schema))
    case 'number':
      return fc.double({ ...rangeOf(schema), noNaN: true, noDefaultInfinity: true })
    case 'boolean':
      return fc.boolean()
    case 'null':
      return fc.constant(null)
    case 'array':
      return fc.array(fromSchema((schema['items'] ?? {}) as Schema, root, depth + 1), {
        minLength: Number(schema['minItems'] ?? 0),
        maxLength: Math.min(Number(schema['maxItems'] ?? 3), Number(schema['minItems'] ?? 0) + 3),
      })
    case 'object':
      return objectFrom(schema, root, depth)
    default:
      if (Object.keys(schema).every((key) => key === 'description')) return fc.jsonValue({ maxDepth: 2 })
      throw new Error(`no arguments can be made from ${JSON.stringify(schema)}`)
  }
}

const referred = (schema: Schema, root: Schema): Schema => {
  const name = String(schema['$ref']).split('/').at(-1)!
  return (root['$defs'] as Record<string, Schema>)[name]!
}

const rangeOf = (schema: Schema) => ({
  min: Number(schema['minimum'] ?? -1_000_000),
  max: Math.min(Number(schema['maximum'] ?? 1_000_000), Number.MAX_SAFE_INTEGER),
})

function textFrom(schema: Schema): fc.Arbitrary<string> {
  if (schema['format'] === 'date-time') {
    const [min, max] = [new Date('2000-01-01'), new Date('2040-01-01')]
    return fc.date({ min, max, noInvalidDate: true }).map((date) => date.toISOString())
  }
  if (typeof schema['pattern'] === 'string') return fc.stringMatching(new RegExp(schema['pattern']))
  const minLength = Number(schema['minLength'] ?? 0)
  const maxLength = Math.min(Number(schema['maxLength'] ?? LENGTH_MAX), Math.max(minLength, LENGTH_MAX))
  return fc.oneof(
    fc.string({ minLength, maxLength }),
    fc.string({ minLength, maxLength, unit: 'grapheme' }).filter((text) => text.length <= maxLength),
    fc.constantFrom('T-0001', 'T-0002', 'A-0001', 'Θ-0001', 'p', 'local').filter((text) => text.length <= maxLength),
  )
}

function objectFrom(schema: Schema, root: Schema, depth: number): fc.Arbitrary<object> {
  const members = propertiesOf(schema).map(([key, part]): [string, fc.Arbitrary<unknown>] => [
    key,
    fromSchema(part, root, depth + 1),
  ])
  const requiredKeys = ((schema['required'] ?? []) as string[]).filter((key) => members.some(([name]) => name === key))
  const known = fc.record(Object.fromEntries(members), { requiredKeys })
  const extra = schema['additionalProperties']
  if (typeof extra !== 'object' || extra === null) return known
  const dictionary = fc.dictionary(fc.string({ maxLength: 12 }), fromSchema(extra as Schema, root, depth + 1), {
    maxKeys: 3,
  })
  return fc.tuple(known, dictionary).map(([left, right]) => ({ ...right, ...left }))
}
