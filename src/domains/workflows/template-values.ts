import type { Json } from '../../kernel/canonical-json.ts'

export type Value = Json | undefined

/** What `{{name arguments}}` may call. All are functions of their arguments alone. */
export const templateHelpers: ReadonlyMap<string, (values: readonly Value[]) => Value> = new Map(
  Object.entries({
    length: ([value]) => sizeOf(value),
    upper: ([value]) => shown(value).toUpperCase(),
    lower: ([value]) => shown(value).toLowerCase(),
    trim: ([value]) => shown(value).trim(),
    json: ([value]) => JSON.stringify(value ?? null),
    first_line: ([value]) => shown(value).split(/\r?\n/, 1)[0]!,
    default: (values) => values.find((value) => value !== undefined && value !== null && value !== '') ?? '',
    keys: ([value]) => (isObject(value) ? Object.keys(value) : []),
    lookup: ([value, key]) => memberOf(value, shown(key)),
    eq: ([left, right]) => isSame(left, right),
    ne: ([left, right]) => !isSame(left, right),
    gt: ([left, right]) => compare(left, right) > 0,
    gte: ([left, right]) => compare(left, right) >= 0,
    lt: ([left, right]) => compare(left, right) < 0,
    lte: ([left, right]) => compare(left, right) <= 0,
    and: (values) => values.every(isTruthy),
    or: (values) => values.some(isTruthy),
    not: ([value]) => !isTruthy(value),
  } satisfies Record<string, (values: readonly Value[]) => Value>),
)

const isObject = (value: Value): value is { readonly [key: string]: Json | undefined } =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** How a value stands in a text: as it is, nothing for what is not there, JSON for what has members. */
export function shown(value: Value): string {
  if (value === undefined || value === null) return ''
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}

/** Own members only: nothing that a prototype brings is reachable. */
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

function sizeOf(value: Value): number {
  if (typeof value === 'string' || Array.isArray(value)) return value.length
  return isObject(value) ? Object.keys(value).length : 0
}

function isSame(left: Value, right: Value): boolean {
  if (typeof left === 'object' || typeof right === 'object') {
    return JSON.stringify(left ?? null) === JSON.stringify(right ?? null)
  }
  return left === right || shown(left) === shown(right)
}

/** Not a number when the two cannot be compared, so that no comparison holds. */
function compare(left: Value, right: Value): number {
  const [a, b] = [toNumber(left), toNumber(right)]
  if (a !== undefined && b !== undefined) return a - b
  if (typeof left !== 'string' || typeof right !== 'string') return Number.NaN
  if (left === right) return 0
  return left < right ? -1 : 1
}

function toNumber(value: Value): number | undefined {
  if (typeof value === 'number') return value
  const read = typeof value === 'string' && value.trim() !== '' ? Number(value) : Number.NaN
  return Number.isFinite(read) ? read : undefined
}
