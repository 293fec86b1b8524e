/**
 * RFC 8785 canonical JSON: keys sorted by UTF-16 code units, ECMAScript number formatting, no white space.
 * Refuses what has no canonical form: non-finite numbers, lone surrogates, and values that JSON cannot carry.
 * `undefined` members are left out, as JSON.stringify does.
 */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json | undefined }

export class NotCanonicalError extends Error {
  override name = 'NotCanonicalError'
}

export function canonicalJson(value: unknown): string {
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
      out += value[index] === undefined ? 'null' : canonicalJson(value[index])
    }
    return `${out}]`
  }
  const record = value as Record<string, unknown>
  let out = ''
  for (const key of sortedKeys(record)) {
    const member = record[key]
    if (member === undefined) continue
    out += `${out === '' ? '' : ','}${canonicalString(key)}:${canonicalJson(member)}`
  }
  return `{${out}}`
}

/** Sorting is most of the work for small objects, and records are mostly written in order already. */
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
