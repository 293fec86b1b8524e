import { limits } from '../../contract/limits.ts'
import type { Fields } from './read-fields.ts'

const durationUnits: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }
export const TIMEOUT_MS_MAX = 366 * 86_400_000

/** `90s`, `15m`, `24h`, `1h30m`; a bare number is seconds. Undefined for anything else. */
export function durationMs(value: unknown): number | undefined {
  if (typeof value === 'number') return Number.isFinite(value) ? Math.round(value * 1000) : undefined
  if (typeof value !== 'string' || value.length > 40) return undefined
  const text = value.trim()
  if (/^\d+(\.\d+)?$/.test(text)) return Math.round(Number(text) * 1000)
  const parts = [...text.matchAll(/(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)/g)]
  if (parts.length === 0 || parts.map(([part]) => part).join('') !== text.replaceAll(/\s+(?=\d)/g, '')) return undefined
  return Math.round(parts.reduce((sum, [, count, unit]) => sum + Number(count) * durationUnits[unit!]!, 0))
}

export function readDuration(fields: Fields, key: string): number | null {
  const value = fields.raw(key)
  if (value === undefined) return null
  const ms = durationMs(value)
  if (ms === undefined || ms < 1) {
    fields.error(key, 'must be a time such as 90s, 15m or 24h')
    return null
  }
  if (ms > TIMEOUT_MS_MAX) {
    fields.error(key, 'must be at most 366 days')
    return null
  }
  return ms
}

/** No command of a workspace runs longer than its back end lets it. */
export function readCommandTime(fields: Fields, key: string): number | null {
  const ms = readDuration(fields, key)
  if (ms !== null && ms > limits.execTimeoutSecsMax * 1000)
    fields.error(key, `must be at most ${limits.execTimeoutSecsMax / 3600}h, the longest time of a command`)
  return ms
}

const sizeUnits: Readonly<Record<string, number>> = {
  '': 1,
  b: 1,
  k: 2 ** 10,
  m: 2 ** 20,
  g: 2 ** 30,
  t: 2 ** 40,
}

/** `512m`, `2g`, `128Mi`, `1GiB` or bytes, as containers are given them. Undefined for anything else. */
export function sizeBytes(value: unknown): number | undefined {
  if (typeof value === 'number') return Number.isInteger(value) && value > 0 ? value : undefined
  const found = typeof value === 'string' ? /^(\d+(?:\.\d+)?)\s*([bkmgt]?)(?:i?b?)$/i.exec(value.trim()) : null
  if (found === null) return undefined
  const bytes = Number(found[1]) * sizeUnits[found[2]!.toLowerCase()]!
  return bytes >= 1 && Number.isSafeInteger(Math.round(bytes)) ? Math.round(bytes) : undefined
}

/** Millicores: `250`, `"500m"`, or `"0.5"` processors. */
export function cpuMillis(value: unknown): number | undefined {
  if (typeof value === 'number')
    return value > 0 ? Math.round(Number.isInteger(value) ? value : value * 1000) : undefined
  if (typeof value !== 'string') return undefined
  const millis = /^(\d+)m?$/.exec(value.trim())
  if (millis !== null) return Number(millis[1]) || undefined
  const whole = /^\d+\.\d+$/.test(value.trim()) ? Number(value) : 0
  return whole > 0 ? Math.round(whole * 1000) : undefined
}
