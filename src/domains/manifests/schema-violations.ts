import type { Json, JsonObject } from '../../kernel/canonical-json.ts'
import { type CompiledSchema, compileJsonSchema } from './json-schema.ts'
import type { SchemaBudget } from './schema-work.ts'

const cache = new Map<string, CompiledSchema>()

/** The budget of the manifest is charged even if the schema is cached. */
export function schemaProblem(schema: JsonObject, budget: SchemaBudget): string | null {
  const compiled = compileJsonSchema(schema, budget)
  return compiled.ok ? null : compiled.reason
}

/** The violations of the value, one sentence each. */
export function violationsOf(schema: JsonObject, value: Json): readonly string[] {
  const compiled = compile(schema)
  return compiled.ok ? compiled.check(value) : [compiled.reason]
}

/** Cached, because the same schema is used at every start of a run. */
function compile(schema: JsonObject): CompiledSchema {
  const text = JSON.stringify(schema)
  let found = cache.get(text)
  if (found === undefined) {
    found = compileJsonSchema(schema)
    if (cache.size >= 200) cache.clear()
    cache.set(text, found)
  }
  return found
}
