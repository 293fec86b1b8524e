import { limits } from '../../contract/limits.ts'
import type { SchemaCheck } from '../../domains/manifests/json-schema.ts'

type JsonObject = Readonly<Record<string, unknown>>

/** Checks the arguments of a tool by another server's schema; undefined if the schema cannot be used. */
export type ArgumentChecks = (schema: JsonObject) => SchemaCheck | undefined | Promise<SchemaCheck | undefined>

/**
 * A schema is compiled when its tool is first called, and cached while the tool is among those called last: a compiled schema
 * takes many times the memory of its text. A schema that cannot be compiled is not tried again while it is cached.
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
