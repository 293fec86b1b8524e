import { createRequire } from 'node:module'
import type { AnySchema, ErrorObject, Options } from 'ajv'
import { limits } from '../../contract/limits.ts'
import { compileLinearPattern } from '../../kernel/linear-pattern.ts'
import { createMeter, TooMuchWork } from '../templating/work-meter.ts'
import { boundedInTime } from './bounded-in-time.ts'
import { chargeSchema, isCheapToCheck, newSchemaBudget, type SchemaBudget } from './schema-work.ts'

/** The violations of a value, one sentence each, beginning with the path; empty if it conforms. */
export type SchemaCheck = (value: unknown) => readonly string[]
export type CompiledSchema = Readonly<{ ok: true; check: SchemaCheck }> | Readonly<{ ok: false; reason: string }>

/**
 * Compiles an untrusted JSON Schema. Its patterns run in linear time (RE2: no look-around, no back-references); references
 * resolve only within the schema; nothing is fetched. The work of compiling is charged to the budget, which schemas can share.
 * Small schemas can still require endless work for a value (references that multiply), so validation is cut off after a time: a
 * value whose validation is cut off does not conform.
 */
export function compileJsonSchema(schema: unknown, budget: SchemaBudget = newSchemaBudget()): CompiledSchema {
  if (typeof schema !== 'object' || schema === null || Array.isArray(schema)) {
    return typeof schema === 'boolean'
      ? { ok: true, check: () => (schema ? [] : ['the schema allows nothing']) }
      : { ok: false, reason: 'it must be a JSON Schema, which is an object' }
  }
  const text = JSON.stringify(schema)
  if (text.length > limits.jsonSchemaCharsMax) {
    return { ok: false, reason: `it is longer than ${limits.jsonSchemaCharsMax} characters` }
  }
  if (!chargeSchema(schema, budget)) return { ok: false, reason: tooMuchWork }
  try {
    patternMeter = createMeter(limits.patternWorkMax)
    const isOf2020 = text.includes('draft/2020-12')
    const meta = metaValidator(isOf2020)
    const ajv = newValidator(isOf2020, { ...options, meta: false, validateSchema: false })
    const validate = boundedInTime(limits.jsonSchemaCompileMs, () => {
      const bare = withoutId(schema) as AnySchema
      if (meta.validateSchema(bare) !== true) throw new Error(`schema is invalid: ${meta.errorsText()}`)
      return ajv.compile(bare)
    })
    const metered = (value: unknown) => {
      patternMeter = createMeter(limits.patternWorkMax)
      return validate(value)
    }
    // Enforcing a time limit costs more than most validations.
    const conforms = isCheapToCheck(schema)
      ? metered
      : (value: unknown) => boundedInTime(limits.jsonSchemaCheckMs, () => metered(value))
    return {
      ok: true,
      check(value) {
        try {
          return conforms(value) ? [] : (validate.errors ?? []).slice(0, 20).map(sentence)
        } catch (error) {
          return [`the value cannot be checked: ${reasonOf(error)}`]
        }
      },
    }
  } catch (error) {
    return { ok: false, reason: reasonOf(error) }
  }
}

const tooMuchWork =
  `together with the other schemas of the manifest it is too large: at most ${limits.jsonSchemaWorkMax} values in all, where those ` +
  `behind each $ref count again and a pattern counts as ${limits.jsonSchemaPatternWork} or more; leave something out`

const load = createRequire(import.meta.url)

/** Imported at the first schema: most servers never see one. */
function newValidator(isOf2020: boolean, options: Options) {
  const { Ajv } = load('ajv') as typeof import('ajv')
  const { Ajv2020 } = load('ajv/dist/2020.js') as typeof import('ajv/dist/2020.js')
  const { default: addFormats } = load('ajv-formats') as { default: import('ajv-formats').FormatsPlugin }
  const ajv = isOf2020 ? new Ajv2020(options) : new Ajv(options)
  addFormats(ajv, { mode: 'fast' })
  return ajv
}

const metaValidators = new Map<boolean, ReturnType<typeof newValidator>>()

/** Validates schemas themselves. It is stateless and expensive to create. */
function metaValidator(isOf2020: boolean): ReturnType<typeof newValidator> {
  let meta = metaValidators.get(isOf2020)
  if (meta === undefined) {
    meta = newValidator(isOf2020, options)
    meta.validateSchema({})
    metaValidators.set(isOf2020, meta)
  }
  return meta
}

function linearPattern(pattern: string) {
  if (pattern.length > limits.manifestPatternCharsMax) {
    throw new Error(`a pattern is too long: it may have ${limits.manifestPatternCharsMax} characters`)
  }
  const compiled = compileLinearPattern(pattern, {
    programSizeMax: limits.manifestPatternSizeMax,
    refuse: (rule) => new Error(`a pattern ${rule}`),
  })
  return {
    /** The maximum number of steps per character. */
    size: compiled.programSize(),
    test: (text: string) => compiled.matcher(text).find(),
  }
}

/** For the schema or the value under validation: a schema applies many patterns to many strings. */
let patternMeter = createMeter(limits.patternWorkMax)

const meteredPattern = Object.assign(
  (pattern: string) => {
    const { size, test } = linearPattern(pattern)
    return {
      test(text: string) {
        patternMeter.charge(size * text.length)
        return test(text)
      },
      /** Ajv identifies patterns by this. */
      toString: () => pattern,
    }
  },
  { code: 'meteredPattern' },
)

const options: Options = {
  strict: false,
  allErrors: true,
  validateFormats: true,
  logger: false,
  messages: true,
  unicodeRegExp: false,
  inlineRefs: false,
  code: { regExp: meteredPattern, optimize: false },
}

/** The dialect is chosen above, and ids of different schemas must not collide. */
function withoutId(schema: object): object {
  const { $schema: _dialect, $id: _id, ...rest } = schema as Record<string, unknown>
  return rest
}

const sentence = ({ instancePath, message, params }: ErrorObject): string => {
  const { allowedValues } = params as { allowedValues?: unknown }
  const allowed = Array.isArray(allowedValues) ? `: ${JSON.stringify(allowedValues).slice(0, 200)}` : ''
  return `${instancePath === '' ? 'the value' : instancePath} ${message ?? 'does not conform'}${allowed}`
}

function reasonOf(error: unknown): string {
  const { code } = (error ?? {}) as { code?: unknown }
  if (String(code).endsWith('SCRIPT_EXECUTION_TIMEOUT')) return 'it takes too long'
  if (error instanceof TooMuchWork) {
    return `its patterns need more than ${limits.patternWorkMax} steps (characters times the size of the compiled pattern)`
  }
  if (error instanceof RangeError) return 'it refers to itself endlessly'
  if (!(error instanceof Error)) return 'it cannot be compiled'
  return error.message.replaceAll(/\s+/g, ' ').slice(0, 200)
}

/**
 * An untrusted pattern for untrusted text: linear in both, or refused. A test takes up to `size` steps for each character and
 * blocks the event loop meanwhile, so it is charged before it runs.
 */
export function compilePattern(pattern: string): { size: number; test(text: string): boolean } | { reason: string } {
  try {
    return linearPattern(pattern)
  } catch (error) {
    return { reason: reasonOf(error) }
  }
}
