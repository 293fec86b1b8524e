/**
 * The searchable text of a JSON Schema: the names of its properties, and their descriptions together with the values of
 * their enumerations. Follows properties, items, unions and local references, each node once.
 */
export type JsonSchema = Readonly<Record<string, unknown>>

const nodesMax = 2_000

export const isSchema = (value: unknown): value is JsonSchema =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

export const schemaList = (value: unknown): JsonSchema[] => (Array.isArray(value) ? value.filter(isSchema) : [])

/** What a `$ref` within the same schema points at; the schema itself when there is none, undefined when it dangles. */
export function resolveReference(schema: JsonSchema, root: JsonSchema): JsonSchema | undefined {
  let current = schema
  for (let hops = 0; hops < 16; hops++) {
    const reference = current['$ref']
    if (typeof reference !== 'string') return current
    if (reference !== '#' && !reference.startsWith('#/')) return undefined
    let target: unknown = root
    for (const step of reference
      .slice(2)
      .split('/')
      .filter((part) => part !== '')) {
      const key = step.replaceAll('~1', '/').replaceAll('~0', '~')
      const holder: unknown = target
      target =
        typeof holder === 'object' && holder !== null && Object.hasOwn(holder, key)
          ? Reflect.get(holder, key)
          : undefined
    }
    if (!isSchema(target)) return undefined
    current = target
  }
  return undefined
}

export function schemaText(root: JsonSchema): { names: string[]; descriptions: string[] } {
  const names: string[] = []
  const descriptions: string[] = []
  const seen = new Set<JsonSchema>()
  const waiting: JsonSchema[] = [root]
  while (waiting.length > 0 && seen.size < nodesMax) {
    const schema = resolveReference(waiting.shift()!, root)
    if (schema === undefined || seen.has(schema)) continue
    seen.add(schema)
    if (typeof schema['description'] === 'string' && schema !== root) descriptions.push(schema['description'])
    const values = Array.isArray(schema['enum']) ? schema['enum'] : [schema['const']]
    for (const value of values) if (typeof value === 'string') descriptions.push(value)
    if (isSchema(schema['properties'])) {
      for (const [name, child] of Object.entries(schema['properties'])) {
        names.push(name)
        if (isSchema(child)) waiting.push(child)
      }
    }
    for (const key of ['items', 'additionalProperties']) {
      const child = schema[key]
      if (isSchema(child)) waiting.push(child)
    }
    for (const key of ['anyOf', 'oneOf', 'allOf', 'prefixItems']) waiting.push(...schemaList(schema[key]))
  }
  return { names, descriptions }
}
