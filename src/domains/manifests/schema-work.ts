import { limits } from '../../contract/limits.ts'

/** The work that the schemas of one manifest may still require, in the unit of `chargeSchema`. */
export type SchemaBudget = { left: number }

export const newSchemaBudget = (): SchemaBudget => ({ left: limits.jsonSchemaWorkMax })

const referenceWords = new Set(['$ref', '$dynamicRef', '$recursiveRef'])

/**
 * Charges the work of compiling a schema: one for each value in it, again for each value behind each distinct reference, and more
 * for a pattern. Returns whether the budget sufficed; counting stops when it is exhausted.
 */
export function chargeSchema(schema: object, budget: SchemaBudget): boolean {
  const references = new Set<string>()
  charge(schema, budget, references)
  // A target with further references adds to the set, and the loop continues with those.
  for (const reference of references) charge(targetOf(schema, reference), budget, references)
  return budget.left >= 0
}

function charge(value: unknown, budget: SchemaBudget, references: Set<string>): void {
  if (budget.left < 0) return
  budget.left--
  if (Array.isArray(value)) {
    for (const item of value) charge(item, budget, references)
    return
  }
  if (typeof value !== 'object' || value === null) return
  for (const [key, inner] of Object.entries(value)) {
    if (referenceWords.has(key) && typeof inner === 'string') references.add(inner)
    if (key === 'pattern' && typeof inner === 'string') budget.left -= patternWork(inner)
    if (key === 'patternProperties' && typeof inner === 'object' && inner !== null) {
      for (const pattern of Object.keys(inner)) budget.left -= patternWork(pattern)
    }
    charge(inner, budget, references)
  }
}

/** Keywords with which a small schema can require more than one step per schema value and checked value. */
const costlyWords = new Set([...referenceWords, 'pattern', 'patternProperties', 'format', 'uniqueItems'])
const CHEAP_VALUES_MAX = 500

/** Whether validation is certain to end soon, so that no time limit is needed. */
export function isCheapToCheck(schema: object): boolean {
  let left = CHEAP_VALUES_MAX
  const isCheap = (value: unknown): boolean => {
    if (--left < 0) return false
    if (typeof value !== 'object' || value === null) return true
    return Object.entries(value).every(([key, inner]) => !costlyWords.has(key) && isCheap(inner))
  }
  return isCheap(schema)
}

/** Long patterns take longer to compile, and so do short ones with large counts. */
const patternWork = (pattern: string): number => limits.jsonSchemaPatternWork + Math.ceil(pattern.length / 8)

/** A reference that is not a path into the schema counts as the whole schema, which no reference within it exceeds. */
function targetOf(schema: object, reference: string): unknown {
  if (!/^#(?:\/|$)/.test(reference)) return schema
  let subschema: unknown = schema
  for (const part of reference.split('/').slice(1)) {
    const name = decoded(part).replaceAll('~1', '/').replaceAll('~0', '~')
    if (typeof subschema !== 'object' || subschema === null || !Object.hasOwn(subschema, name)) return schema
    subschema = (subschema as Record<string, unknown>)[name]
  }
  return subschema
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}
