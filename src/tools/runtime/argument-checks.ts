import { limits } from '../../contract/limits.ts'
import type { SchemaCheck } from '../../domains/manifests/json-schema.ts'

type JsonObject = Readonly<Record<string, unknown>>

/** What checks the arguments of a tool whose schema another server wrote; undefined if nothing can be checked by it. */
export type ArgumentChecks = (schema: JsonObject) => SchemaCheck | undefined | Promise<SchemaCheck | undefined>

/**
 * Compiled when a tool is first called, and kept for as long as it is among those called last: a compiled schema takes many
 * times the room of its text. One that cannot be compiled is not tried again while it is kept.
 */
export function createArgumentChecks(max: number = limits.upstreamSchemasCompiledMax): ArgumentChecks {
  const checks = new Map<JsonObject, SchemaCheck | undefined>()
  let newest: JsonObject | undefined
  async function compile(schema: JsonObject): Promise<SchemaCheck | undefined> {
    const { compileJsonSchema } = await import('../../domains/manifests/json-schema.ts')
    const compiled = compileJsonSchema(schema)
    const check = compiled.ok ? compiled.check : undefined
    if (checks.size >= max) checks.delete(checks.keys().next().value!)
    checks.set(schema, check)
    newest = schema
    return check
  }
  return (schema) => {
    if (!checks.has(schema)) return compile(schema)
    const known = checks.get(schema)
    if (schema !== newest) {
      checks.delete(schema)
      checks.set(schema, known)
      newest = schema
    }
    return known
  }
}
