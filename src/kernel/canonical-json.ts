/**
 * RFC 8785 canonical JSON: keys sorted by UTF-16 code units, ECMAScript number formatting, no white space.
 * Refuses what has no canonical form: non-finite numbers, lone surrogates, and values that JSON cannot carry.
 * `undefined` members are left out, as JSON.stringify does.
 */
export type Json = null | boolean | number | string | readonly Json[] | JsonObject
export type JsonObject = { readonly [key: string]: Json | undefined }

export class NotCanonicalError extends Error {
  override name = 'NotCanonicalError'
}

export function canonicalJson(value: unknown): string {
  if (typeof value !== 'object' || value === null) return writeCanonical(value)
  const ordered = isInOrder(value) ? value : sortedCopy(value)
  if (ordered === undefined) return writeCanonical(value)
  const text = JSON.stringify(ordered)
  // The engine's writer is several times as fast, but escapes a lone surrogate where we refuse it.
  return text.includes('\\ud') ? writeCanonical(value) : text
}

/** Whether the engine's JSON writer would write exactly the canonical form: keys sorted at every level, numbers finite. */
function isInOrder(value: object): boolean {
  if (Array.isArray(value)) {
    for (const item of value) if (!isMemberInOrder(item)) return false
    return true
  }
  let last = ''
  for (const key of Object.keys(value)) {
    if (key < last || !isMemberInOrder((value as Record<string, unknown>)[key])) return false
    last = key
  }
  return true
}

/** Arguments come in any order, and mostly only that keeps them from being canonical. */
function sortedCopy(value: object): object | undefined {
  if (Array.isArray(value)) return undefined
  const members = value as Record<string, unknown>
  const copy: Record<string, unknown> = {}
  for (const key of Object.keys(members).sort()) {
    // Not every key may be assigned, and the engine orders some keys itself.
    if (!PLAIN_KEY.test(key) || !isMemberInOrder(members[key])) return undefined
    copy[key] = members[key]
  }
  return copy
}
const PLAIN_KEY = /^[a-z][a-z0-9_]*$/

function isMemberInOrder(member: unknown): boolean {
  switch (typeof member) {
    case 'string':
    case 'boolean':
    case 'undefined':
      return true
    case 'number':
      return Number.isFinite(member)
    case 'object':
      return member === null || (!('toJSON' in member) && isInOrder(member))
    default:
      return false
  }
}

function writeCanonical(value: unknown): string {
  switch (typeof value) {
    case 'string':
      return canonicalString(value)
    case 'number':
      if (!Number.isFinite(value)) throw new NotCanonicalError('a non-finite number has no JSON form')
      return JSON.stringify(value)
    case 'boolean':
      return value ? 'true' : 'false'
    case 'object':
      break
    default:
      throw new NotCanonicalError(`a ${typeof value} has no JSON form`)
  }
  if (value === null) return 'null'
  if (Array.isArray(value)) {
    let out = '['
    for (let index = 0; index < value.length; index++) {
      if (index > 0) out += ','
      out += value[index] === undefined ? 'null' : writeCanonical(value[index])
    }
    return `${out}]`
  }
  const record = value as Record<string, unknown>
  let out = ''
  for (const key of sortedKeys(record)) {
    const member = record[key]
    if (member === undefined) continue
    out += `${out === '' ? '' : ','}${canonicalString(key)}:${writeCanonical(member)}`
  }
  return `{${out}}`
}

/** Sorting is most of the work for small objects, and records are mostly in order already. */
function sortedKeys(record: Record<string, unknown>): string[] {
  const keys = Object.keys(record)
  for (let index = 1; index < keys.length; index++) {
    if (keys[index - 1]! > keys[index]!) return keys.sort()
  }
  return keys
}

export function canonicalString(value: string): string {
  if (!value.isWellFormed()) throw new NotCanonicalError('a lone surrogate has no canonical form')
  return JSON.stringify(value)
}
