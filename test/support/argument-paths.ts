import fc from 'fast-check'
import { propertiesOf, type Schema, validArguments } from './arguments.ts'

/** Where in the arguments of a tool a text can be, as `assignments[].toolId`. */
export function textPathsOf(schema: Schema, path = ''): string[] {
  if ('enum' in schema || 'const' in schema) return []
  const options = optionsOf(schema)
  if (options.length > 1) return [...new Set(options.flatMap((part) => textPathsOf(part, path)))]
  if ([schema['type']].flat().includes('string')) return [path]
  if (schema['type'] === 'array') return textPathsOf(itemsOf(schema), `${path}[]`)
  return propertiesOf(schema).flatMap(([key, part]) => textPathsOf(part, path === '' ? key : `${path}.${key}`))
}

const optionsOf = (schema: Schema): readonly Schema[] => (schema['anyOf'] ?? schema['oneOf'] ?? [schema]) as Schema[]
const itemsOf = (schema: Schema): Schema => (schema['items'] ?? {}) as Schema

/** What a caller would fill in for a parameter; undefined if it does not matter. */
type FilledIn = (key: string) => unknown

const samples = new WeakMap<Schema, Readonly<Record<string, unknown>>>()
function sampleOf(schema: Schema): Readonly<Record<string, unknown>> {
  const known = samples.get(schema) ?? fc.sample(validArguments(schema), { seed: 11, numRuns: 1 })[0]!
  samples.set(schema, known)
  return known
}

export function requiredArguments(schema: Schema, filledIn: FilledIn): Record<string, unknown> {
  const required = (schema['required'] ?? []) as string[]
  return Object.fromEntries(required.map((key) => [key, filledIn(key) ?? sampleOf(schema)[key]]))
}

/** Arguments with the text at the path; what is beside it is filled in where it is required. */
export function withTextAt(schema: Schema, path: string, text: string, filledIn: FilledIn): Record<string, unknown> {
  const [step = '', ...rest] = path.split('.')
  const [key, isList] = [step.replaceAll('[]', ''), step.endsWith('[]')]
  const part = propertiesOf(schema).find(([name]) => name === key)![1]
  const parts = optionsOf(part).map((one) => (isList ? itemsOf(one) : one))
  const inner = parts.find((one) => 'properties' in one) ?? {}
  const value = rest.length === 0 ? text : withTextAt(inner, rest.join('.'), text, filledIn)
  return { ...requiredArguments(schema, filledIn), [key]: isList ? [value] : value }
}
