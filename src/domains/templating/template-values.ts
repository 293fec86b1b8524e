import type { Json } from '../../kernel/canonical-json.ts'
import { chargeValue, type Meter, shallowUnits } from '../templating/work-meter.ts'

export type Value = Json | undefined

/** The context of rendering: the meter of the work, and the objects that are rendered as a text of their own. */
export type Rendering = Readonly<{ meter: Meter; texts?: ReadonlyMap<object, string> | undefined }>
export type Helper = (values: readonly Value[], rendering: Rendering) => Value

/** The helpers of `{{name arguments}}`. All are pure functions of their arguments, and charge for what they read. */
export const templateHelpers: ReadonlyMap<string, Helper> = new Map(
  Object.entries({
    length: ([value], { meter }) => sizeOf(value, meter),
    upper: ([value], to) => displayedTo(value, to).toUpperCase(),
    lower: ([value], to) => displayedTo(value, to).toLowerCase(),
    trim: ([value], to) => displayedTo(value, to).trim(),
    json: ([value], { meter }) => jsonOf(value, meter),
    shell: ([value], to) => quotedForShell(displayedTo(value, to)),
    first_line: ([value], to) => displayedTo(value, to).split(/\r?\n/, 1)[0]!,
    default: (values) => values.find((value) => value !== undefined && value !== null && value !== '') ?? '',
    keys: ([value], { meter }) => keysOf(value, meter),
    lookup: ([value, key], to) => memberOf(value, displayedTo(key, to)),
    eq: ([left, right], { meter }) => isSame(left, right, meter),
    ne: ([left, right], { meter }) => !isSame(left, right, meter),
    gt: ([left, right], { meter }) => compare(left, right, meter) > 0,
    gte: ([left, right], { meter }) => compare(left, right, meter) >= 0,
    lt: ([left, right], { meter }) => compare(left, right, meter) < 0,
    lte: ([left, right], { meter }) => compare(left, right, meter) <= 0,
    and: (values) => values.every(isTruthy),
    or: (values) => values.some(isTruthy),
    not: ([value]) => !isTruthy(value),
    add: arithmetic('+', (left, right) => left + right),
    subtract: arithmetic('-', (left, right) => left - right),
    multiply: arithmetic('*', (left, right) => left * right),
    divide: arithmetic('/', (left, right) => left / right),
    modulo: arithmetic('%', (left, right) => left % right),
  } satisfies Record<string, Helper>),
)

/** A value that an operation does not support. The text cannot be rendered. */
export class NoSuchValue extends Error {}

/** Names that a text may use before they have a value count as 0. */
function arithmetic(sign: string, compute: (left: number, right: number) => number): Helper {
  return (values, { meter }) => {
    const [left, right] = values.map((value) => (value === undefined || value === '' ? 0 : toNumber(value, meter)))
    const result = left === undefined || right === undefined ? Number.NaN : compute(left, right)
    if (values.length === 2 && Number.isFinite(result)) return result
    const displayedKinds = values.map(kindOf).join(` ${sign} `)
    throw new NoSuchValue(`${displayedKinds} is not a number; ${sign} takes two numbers`)
  }
}

const kindOf = (value: Value): string => {
  if (typeof value === 'number') return String(value)
  if (value === null) return 'null'
  return Array.isArray(value) ? 'a list' : typeof value === 'object' ? 'a map' : `a ${typeof value}`
}

const isObject = (value: Value): value is { readonly [key: string]: Json | undefined } =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** A value as text: strings unchanged, nothing for a missing value, JSON for objects and lists. */
export function displayed(value: Value): string {
  if (value === undefined || value === null) return ''
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}

/** The same, charged. */
export function displayedTo(value: Value, { meter, texts }: Rendering): string {
  const own = typeof value === 'object' && value !== null ? texts?.get(value) : undefined
  if (own === undefined) chargeValue(meter, value)
  else meter.charge(own.length)
  return own ?? displayed(value)
}

function jsonOf(value: Value, meter: Meter): string {
  chargeValue(meter, value)
  return JSON.stringify(value ?? null)
}

export function keysOf(value: Value, meter: Meter): readonly string[] {
  meter.charge(shallowUnits(value))
  return isObject(value) ? Object.keys(value) : []
}

/** One word of a POSIX shell, whatever it contains. A NUL cannot be part of a word, and is removed. */
const quotedForShell = (text: string): string => `'${text.replaceAll('\0', '').replaceAll("'", "'\\''")}'`

/** Own members only: nothing of a prototype is reachable. */
export function memberOf(value: Value, key: string): Value {
  if (typeof value !== 'object' || value === null) return undefined
  if (Array.isArray(value)) {
    if (key === 'length') return value.length
    return /^\d{1,9}$/.test(key) ? (value[Number(key)] as Value) : undefined
  }
  return Object.hasOwn(value, key) ? (value as { readonly [key: string]: Json | undefined })[key] : undefined
}

export function isTruthy(value: Value): boolean {
  if (Array.isArray(value)) return value.length > 0
  return Boolean(value)
}

function sizeOf(value: Value, meter: Meter): number {
  if (typeof value === 'string' || Array.isArray(value)) return value.length
  return keysOf(value, meter).length
}

function isSame(left: Value, right: Value, meter: Meter): boolean {
  if (typeof left === 'object' || typeof right === 'object') return jsonOf(left, meter) === jsonOf(right, meter)
  meter.charge(Math.min(shallowUnits(left), shallowUnits(right)))
  return left === right || displayed(left) === displayed(right)
}

/** NaN if the two cannot be compared, so that no comparison holds. */
function compare(left: Value, right: Value, meter: Meter): number {
  const [a, b] = [toNumber(left, meter), toNumber(right, meter)]
  if (a !== undefined && b !== undefined) return a - b
  if (typeof left !== 'string' || typeof right !== 'string') return Number.NaN
  if (left === right) return 0
  return left < right ? -1 : 1
}

function toNumber(value: Value, meter: Meter): number | undefined {
  if (typeof value === 'number') return value
  if (typeof value !== 'string') return undefined
  meter.charge(value.length)
  const read = value.trim() === '' ? Number.NaN : Number(value)
  return Number.isFinite(read) ? read : undefined
}
