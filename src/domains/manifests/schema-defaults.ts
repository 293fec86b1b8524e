import type { Json, JsonObject } from '../../kernel/canonical-json.ts'

const isMap = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const DEPTH_MAX = 16

/** Adds the schema's defaults for missing properties. Existing values are unchanged. */
export function withDefaults<T extends JsonObject>(schema: JsonObject | null, value: T): T {
  return schema === null ? value : (filled(schema, value, 0) as T)
}

function filled(schema: JsonObject, value: JsonObject, depth: number): JsonObject {
  const { properties } = schema
  if (!isMap(properties) || depth > DEPTH_MAX) return value
  const made: Record<string, Json> = {}
  for (const [name, one] of Object.entries(properties)) {
    if (!isMap(one) || name === '__proto__') continue
    const input = value[name]
    if (input === undefined) {
      if (one['default'] !== undefined) made[name] = one['default']
    } else if (isMap(input)) made[name] = filled(one, input, depth + 1) as Json
  }
  return { ...value, ...made }
}
