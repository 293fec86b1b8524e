import { AppError } from '../../contract/app-error.ts'
import type { Json, JsonObject } from '../../kernel/canonical-json.ts'
import { violationsOf } from '../manifests/schema-violations.ts'
import { memberOf } from '../templating/template-values.ts'
import {
  type Context,
  evaluateArguments,
  type OnMissing,
  renderTemplate,
  soleExpression,
} from '../templating/templates.ts'
import { createMeter, type Meter } from '../templating/work-meter.ts'
import type { StateResult } from './conditions.ts'
import { knownNames, refuseMissing } from './known-names.ts'
import type { WorkflowManifest } from './manifest-schema.ts'

/**
 * The output of a run: the rendered template, converted to the types of the schema where possible; without a template, the result
 * of the last state.
 */
export function renderOutput(
  manifest: WorkflowManifest,
  result: StateResult,
  context: Context,
  isStrict: boolean,
): Readonly<{ output: Json; violations: readonly string[] }> {
  const { outputTemplate, outputSchema } = manifest
  const problems: string[] = []
  const missing = isStrict ? refuseMissing(knownNames(manifest, null, 'end'), context, FIELD) : undefined
  const output =
    outputTemplate === null
      ? (result['output'] ?? result['response'] ?? result)
      : renderLeaves(outputTemplate, outputSchema, { context, problems, missing, meter: createMeter() })
  const violations = outputSchema === null ? [] : violationsOf(outputSchema, output)
  return { output, violations: [...problems, ...violations] }
}

const FIELD = 'metadata.output_template'
type Leaves = Readonly<{ context: Context; problems: string[]; meter: Meter; missing: OnMissing | undefined }>

function renderLeaves(value: Json, schema: Json | undefined | null, leaves: Leaves): Json {
  if (typeof value === 'string') {
    const text = rendered(value, leaves)
    if (text === undefined) return null
    const isTyped = memberOf(schema ?? undefined, 'type') !== undefined
    return isTyped ? coerce(text, schema) : (plainValue(value, leaves) ?? text)
  }
  if (Array.isArray(value)) {
    const items = memberOf(schema ?? undefined, 'items')
    return value.map((item) => renderLeaves(item as Json, items, leaves))
  }
  if (typeof value !== 'object' || value === null) return value
  const properties = memberOf(schema ?? undefined, 'properties')
  return Object.fromEntries(
    Object.entries(value as JsonObject).map(([key, member]) => [
      key,
      renderLeaves(member ?? null, memberOf(properties, key), leaves),
    ]),
  )
}

/** A text that cannot be rendered is reported and becomes null. It does not fail a run that has finished its work. */
function rendered(text: string, { context, problems, meter, missing }: Leaves): string | undefined {
  try {
    return renderTemplate(text, context, { field: FIELD, meter, missing })
  } catch (error) {
    if (!(error instanceof AppError)) throw error
    problems.push(error.message)
    return missing === undefined ? '' : undefined
  }
}

/** If an expression is the whole text and no schema gives a type, numbers and booleans keep their type. */
function plainValue(text: string, { context, meter, missing }: Leaves): number | boolean | undefined {
  // Runs that started before names were strict continue with strings.
  const expression = missing === undefined || !text.includes('{{') ? undefined : soleExpression(text)
  if (expression === undefined) return undefined
  const value = evaluateArguments(expression, context, meter)
  return typeof value === 'number' || typeof value === 'boolean' ? value : undefined
}

function coerce(text: string, schema: Json | undefined | null): Json {
  const type = memberOf(schema ?? undefined, 'type')
  const types = Array.isArray(type) ? type : [type]
  if (types.includes('string') || type === undefined) return text
  const trimmed = text.trim()
  if (types.includes('null') && trimmed === '') return null
  if (types.includes('boolean') && /^(true|false)$/i.test(trimmed)) return trimmed.toLowerCase() === 'true'
  const number = trimmed === '' ? Number.NaN : Number(trimmed)
  if (types.includes('integer') && Number.isInteger(number)) return number
  if (types.includes('number') && Number.isFinite(number)) return number
  const parsed = types.includes('object') || types.includes('array') ? parsedJson(trimmed) : undefined
  if (typeof parsed === 'object' && parsed !== null) {
    if (types.includes(Array.isArray(parsed) ? 'array' : 'object')) return parsed
  }
  return text
}

export function parsedJson(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json
  } catch {
    return undefined
  }
}
