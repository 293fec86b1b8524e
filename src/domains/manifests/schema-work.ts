import { limits } from '../../contract/limits.ts'

/** What the schemas of one manifest may still ask for, in the unit of `chargeSchema`. */
export type SchemaBudget = { left: number }

export const newSchemaBudget = (): SchemaBudget => ({ left: limits.jsonSchemaWorkMax })

const referenceWords = new Set(['$ref', '$dynamicRef', '$recursiveRef'])

/**
 * Takes the work of compiling a schema from the budget: one for each value in it, again for each value behind a spelling of
 * a reference, and more for a pattern. Answers whether the budget had it; counting ends where the budget does.
 */
export function chargeSchema(schema: object, budget: SchemaBudget): boolean {
  const references = new Set<string>()
  charge(schema, budget, references)
  // A reference that leads to more of them adds to the set, and the loop goes on to those.
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

/** Words with which a small schema can ask for more than one step for each of its values and each value that is checked. */
const costlyWords = new Set([...referenceWords, 'pattern', 'patternProperties', 'format', 'uniqueItems'])
const CHEAP_VALUES_MAX = 500

/** Whether checking with it is sure to end soon, so that nobody need watch the time. */
export function isCheapToCheck(schema: object): boolean {
  let left = CHEAP_VALUES_MAX
  const isCheap = (value: unknown): boolean => {
    if (--left < 0) return false
    if (typeof value !== 'object' || value === null) return true
    return Object.entries(value).every(([key, inner]) => !costlyWords.has(key) && isCheap(inner))
  }
  return isCheap(schema)
}

/** A long pattern takes longer to compile, a short one with large counts takes long as well. */
const patternWork = (pattern: string): number => limits.jsonSchemaPatternWork + Math.ceil(pattern.length / 8)

/** What is not a path into the schema counts as all of it, which no reference within it exceeds. */
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
