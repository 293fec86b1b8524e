import type { Json, JsonObject } from '../../kernel/canonical-json.ts'
import { type CompiledSchema, compileJsonSchema } from './json-schema.ts'
import type { SchemaBudget } from './schema-work.ts'

const cache = new Map<string, CompiledSchema>()

/** The budget is that of the manifest, whether the schema is known already or not. */
export function schemaProblem(schema: JsonObject, budget: SchemaBudget): string | null {
  const compiled = compileJsonSchema(schema, budget)
  return compiled.ok ? null : compiled.reason
}

/** What is wrong with the value, one sentence each; an empty list when nothing is. */
export function violationsOf(schema: JsonObject, value: Json): readonly string[] {
  const compiled = compile(schema)
  return compiled.ok ? compiled.check(value) : [compiled.reason]
}

/** The same schema is asked again at every start of a run. */
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
