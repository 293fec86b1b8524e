import { createRequire } from 'node:module'
import { createContext, Script } from 'node:vm'
import type { AnySchema, ErrorObject } from 'ajv'
import { RE2JS } from 're2js'
import { limits } from '../../contract/limits.ts'

/** What is wrong with a value, one sentence each that begins with its place; empty if it conforms. */
export type SchemaCheck = (value: unknown) => readonly string[]
export type CompiledSchema = Readonly<{ ok: true; check: SchemaCheck }> | Readonly<{ ok: false; reason: string }>

/**
 * Compiles a JSON Schema that a stranger wrote. Its patterns run in linear time (RE2: no look-around, no
 * back-references); references lead nowhere but into itself; nothing is fetched. Small schemas can still ask for endless
 * work (references that multiply), so compiling and checking are cut off after a while: what was cut off does not conform.
 */
export function compileJsonSchema(schema: unknown): CompiledSchema {
  if (typeof schema !== 'object' || schema === null || Array.isArray(schema)) {
    return typeof schema === 'boolean'
      ? { ok: true, check: () => (schema ? [] : ['the schema allows nothing']) }
      : { ok: false, reason: 'it must be a JSON Schema, that is a group of fields' }
  }
  const text = JSON.stringify(schema)
  if (text.length > limits.jsonSchemaCharsMax) {
    return { ok: false, reason: `it is longer than ${limits.jsonSchemaCharsMax} characters` }
  }
  try {
    const ajv = newValidator(text.includes('draft/2020-12'))
    const validate = boundedInTime(() => ajv.compile(withoutId(schema) as AnySchema))
    return {
      ok: true,
      check(value) {
        try {
          return boundedInTime(() => validate(value)) ? [] : (validate.errors ?? []).slice(0, 20).map(sentence)
        } catch (error) {
          return [`the value cannot be checked: ${reasonOf(error)}`]
        }
      },
    }
  } catch (error) {
    return { ok: false, reason: reasonOf(error) }
  }
}

const load = createRequire(import.meta.url)

/** The libraries are loaded when the first schema comes: most servers never see one. */
function newValidator(isOf2020: boolean) {
  const { Ajv } = load('ajv') as typeof import('ajv')
  const { Ajv2020 } = load('ajv/dist/2020.js') as typeof import('ajv/dist/2020.js')
  const { default: addFormats } = load('ajv-formats') as { default: import('ajv-formats').FormatsPlugin }
  const ajv = isOf2020 ? new Ajv2020(options) : new Ajv(options)
  addFormats(ajv, { mode: 'fast' })
  return ajv
}

const linearPattern = Object.assign(
  (pattern: string) => {
    if (pattern.length > limits.manifestPatternCharsMax) throw new Error('a pattern is too long')
    const compiled = RE2JS.compile(pattern)
    if (compiled.programSize() > limits.manifestPatternSizeMax) throw new Error('a pattern is too large')
    return {
      /** Steps for each character, at most. */
      size: compiled.programSize(),
      test: (text: string) => compiled.matcher(text).find(),
      /** Ajv tells patterns apart by this. */
      toString: () => pattern,
    }
  },
  { code: 'linearPattern' },
)

const watch = new Script('work()')
const room: { work: (() => unknown) | undefined } = { work: undefined }
let context: object | undefined

/** Runs `work` in this thread, and ends it by force if it takes longer than it may. */
function boundedInTime<T>(work: () => T): T {
  context ??= createContext(room)
  room.work = work
  try {
    return watch.runInContext(context, { timeout: limits.jsonSchemaCheckMs }) as T
  } finally {
    room.work = undefined
  }
}

const options = {
  strict: false,
  allErrors: true,
  validateFormats: true,
  logger: false,
  messages: true,
  unicodeRegExp: false,
  code: { regExp: linearPattern },
} as const

/** The dialect is chosen above, and an identifier of one schema must not meet that of another. */
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
  if (String(code).endsWith('SCRIPT_EXECUTION_TIMEOUT')) return `it takes longer than ${limits.jsonSchemaCheckMs} ms`
  if (error instanceof RangeError) return 'it refers to itself without end'
  if (!(error instanceof Error)) return 'it cannot be compiled'
  return error.message.replaceAll(/\s+/g, ' ').slice(0, 200)
}

/** A pattern of a stranger, for text of a stranger: linear in both, or not accepted. */
export function compilePattern(pattern: string): { size: number; test(text: string): boolean } | { reason: string } {
  try {
    return linearPattern(pattern)
  } catch (error) {
    return { reason: reasonOf(error) }
  }
}
