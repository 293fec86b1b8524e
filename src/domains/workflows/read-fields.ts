import type { Json } from '../../kernel/canonical-json.ts'
import { nearestName } from '../../kernel/nearest-name.ts'
import { securityPlaceOf } from './security-fields.ts'

/** What was found in a text of somebody else: an error keeps it from being used, a warning does not. */
export type Findings = Readonly<{ error(at: string, problem: string): void; warn(at: string, problem: string): void }>

export type FindingList = Findings & Readonly<{ errors: readonly string[]; warnings: readonly string[] }>

/** A hostile text must not make a list of problems without end. */
const FINDINGS_MAX = 100

export function createFindings(): FindingList {
  const errors: string[] = []
  const warnings: string[] = []
  const add = (list: string[], at: string, problem: string): void => {
    if (list.length < FINDINGS_MAX) list.push(`${at}: ${problem}`)
  }
  return {
    errors,
    warnings,
    error: (at, problem) => add(errors, at, problem),
    warn: (at, problem) => add(warnings, at, problem),
  }
}

type Rule = Readonly<{ min?: number; max?: number }>

/** The fields of one map. Each reader answers undefined for what is absent or wrong; what is wrong has been reported. */
export type Fields = Readonly<{
  at: string
  findings: Findings
  keys: readonly string[]
  raw(key: string): unknown
  text(key: string, options?: Readonly<{ required?: boolean; max?: number; blank?: boolean }>): string | undefined
  number(key: string, rule?: Rule & Readonly<{ integer?: boolean }>): number | undefined
  flag(key: string): boolean | undefined
  choice<T extends string>(key: string, values: readonly T[]): T | undefined
  map(key: string, shape: Shape): Fields | undefined
  list(key: string): readonly unknown[] | undefined
  json(key: string): { readonly [key: string]: Json | undefined } | undefined
  texts(key: string): Readonly<Record<string, string>> | undefined
  error(key: string, problem: string): void
  warn(key: string, problem: string): void
}>

/** A text of another's in a message: short, and whole characters only. */
export const quoted = (value: unknown): string => `'${String(value).slice(0, 64).toWellFormed()}'`

const TEXT_MAX = 100_000
const LIST_MAX = 200

const isMap = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const snakeCase = (key: string): string => key.replace(/([a-z0-9])([A-Z])/g, '$1_$2').toLowerCase()

/** `renamed` maps old spellings whose meaning is clear to the present ones. */
export type Shape = Readonly<{ known: readonly string[]; renamed?: Readonly<Record<string, string>> }>

export function openFields(findings: Findings, at: string, value: unknown, shape: Shape): Fields | undefined {
  if (!isMap(value)) {
    findings.error(at, 'must be a map of fields')
    return undefined
  }
  return fieldsOf(findings, at, takeKnown(findings, at, value, shape))
}

function takeKnown(findings: Findings, at: string, input: Record<string, unknown>, { known, renamed = {} }: Shape) {
  const taken = new Map<string, unknown>()
  for (const [key, value] of Object.entries(input)) {
    if (value !== null && known.includes(key)) taken.set(key, value)
  }
  for (const [key, value] of Object.entries(input)) {
    if (known.includes(key) || value === null) continue
    const now = Object.hasOwn(renamed, key) ? renamed[key]! : snakeCase(key)
    if (known.includes(now) && !taken.has(now)) {
      taken.set(now, value)
      findings.warn(`${at}.${key}`, `is an old spelling; write ${now}`)
      continue
    }
    const place = securityPlaceOf(key)
    if (place !== undefined) {
      findings.error(
        `${at}.${key.slice(0, 64)}`,
        `has no effect here, and would leave open what it is to close: ${place}`,
      )
      continue
    }
    const near = nearestName(key, known)
    findings.warn(
      `${at}.${key.slice(0, 64)}`,
      `is not a field here and is ignored${near ? `; did you mean ${near}?` : ''}`,
    )
  }
  return taken
}

function fieldsOf(findings: Findings, at: string, taken: ReadonlyMap<string, unknown>): Fields {
  const error = (key: string, problem: string): undefined => void findings.error(`${at}.${key}`, problem)
  const raw = (key: string): unknown => taken.get(key)
  const fields: Fields = {
    at,
    findings,
    keys: [...taken.keys()],
    raw,
    error,
    warn: (key, problem) => findings.warn(`${at}.${key}`, problem),
    text(key, { required = false, max = TEXT_MAX, blank = false } = {}) {
      let value = raw(key)
      if (value === undefined) return required ? error(key, 'is required') : undefined
      if (typeof value === 'number' || typeof value === 'boolean') {
        findings.warn(`${at}.${key}`, 'is read as text; put it in quotes')
        value = String(value)
      }
      if (typeof value !== 'string') return error(key, 'must be text')
      if (!blank && value.trim() === '') return error(key, 'must not be blank')
      if (value.length > max) return error(key, `must be at most ${max} characters`)
      return value
    },
    number(key, { integer = false, min = -Infinity, max = Infinity } = {}) {
      const value = raw(key)
      if (value === undefined) return undefined
      const read = typeof value === 'string' && value.trim() !== '' ? Number(value) : value
      if (typeof read !== 'number' || !Number.isFinite(read)) return error(key, 'must be a number')
      if (integer && !Number.isInteger(read)) return error(key, 'must be a whole number')
      if (read < min || read > max) return error(key, `must be ${rangeText(min, max)}`)
      return read
    },
    flag(key) {
      const value = raw(key)
      if (value === undefined || typeof value === 'boolean') return value
      return error(key, 'must be true or false')
    },
    choice(key, values) {
      const value = raw(key)
      if (value === undefined) return undefined
      const found = values.find((candidate) => candidate === value)
      if (found !== undefined) return found
      const near = values.find(
        (candidate) => candidate.toLowerCase() === String(value).toLowerCase().replaceAll('-', '_'),
      )
      if (near === undefined) return error(key, `${quoted(value)} is not one of ${values.join(', ')}`)
      findings.warn(`${at}.${key}`, `is an old spelling; write ${near}`)
      return near
    },
    map: (key, shape) => (taken.has(key) ? openFields(findings, `${at}.${key}`, raw(key), shape) : undefined),
    list(key) {
      const value = raw(key)
      if (value === undefined) return undefined
      if (!Array.isArray(value)) return error(key, 'must be a list')
      if (value.length > LIST_MAX) return error(key, `must have at most ${LIST_MAX} entries`)
      return value
    },
    json(key) {
      const value = raw(key)
      if (value === undefined) return undefined
      return isMap(value) ? (value as { readonly [key: string]: Json | undefined }) : error(key, 'must be a map')
    },
    texts: (key) => readTexts(fields, key),
  }
  return fields
}

function readTexts(fields: Fields, key: string): Readonly<Record<string, string>> | undefined {
  const value = fields.raw(key)
  if (value === undefined) return undefined
  if (!isMap(value)) return void fields.error(key, 'must be a map of names to texts')
  const entries: [string, string][] = []
  for (const [name, member] of Object.entries(value)) {
    if (member === null) continue
    const text = typeof member === 'object' ? JSON.stringify(member) : String(member)
    if (text.length > TEXT_MAX) fields.error(`${key}.${name.slice(0, 64)}`, `must be at most ${TEXT_MAX} characters`)
    else entries.push([name, text])
  }
  return Object.fromEntries(entries)
}

function rangeText(min: number, max: number): string {
  if (min === -Infinity) return `at most ${max}`
  return max === Infinity ? `at least ${min}` : `from ${min} to ${max}`
}
