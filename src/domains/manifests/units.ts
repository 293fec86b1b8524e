const unitMs: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }
export const durationPattern = /^(?:\d{1,9}(?:\.\d{1,3})?(?:ms|s|m|h|d))+$|^\d{1,9}(?:\.\d{1,3})?$/

export const DURATION_CHARS_MAX = 64

/** `120s`, `2m`, `1h30m`, `120` (seconds) or a number of seconds. Undefined for anything else. */
export function readDuration(value: string | number): number | undefined {
  if (typeof value === 'number') return Number.isFinite(value) ? Math.round(value * 1_000) : undefined
  if (value.length > DURATION_CHARS_MAX) return undefined
  const text = value.trim()
  if (/^\d+(?:\.\d+)?$/.test(text)) return Math.round(Number(text) * 1_000)
  const parts = [...text.matchAll(/(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)/g)]
  const isWhole = parts.map(([part]) => part).join('') === text.replaceAll(/\s+(?=\d)/g, '')
  if (parts.length === 0 || !isWhole) return undefined
  return Math.round(parts.reduce((sum, [, amount, unit]) => sum + Number(amount) * unitMs[unit!]!, 0))
}

/** For a text that `durationPattern` accepts. */
export const durationMs = (value: string | number): number => readDuration(value) ?? 0

const powers: Readonly<Record<string, number>> = {
  '': 1,
  B: 1,
  K: 1_000,
  M: 1_000_000,
  G: 1_000_000_000,
  T: 1_000_000_000_000,
  Ki: 1_024,
  Mi: 1_048_576,
  Gi: 1_073_741_824,
  Ti: 1_099_511_627_776,
}
export const sizePattern = /^\d{1,15}(?:\.\d{1,3})?(?:Ki|Mi|Gi|Ti|K|M|G|T|B)?$/

/** `512Mi`, `1Gi`, `500M`, `1048576` (bytes) or a number of bytes. */
export function sizeBytes(value: string | number): number {
  if (typeof value === 'number') return value
  const [, amount, unit] = /^([\d.]+)([A-Za-z]*)$/.exec(value)!
  return Math.round(Number(amount) * powers[unit!]!)
}

/** Millicores: `500`, `"500m"`, or whole CPUs as the string `"2"`. */
export const cpuPattern = /^\d{1,6}m$|^\d{1,3}(?:\.\d{1,3})?$/
export function millicores(value: string | number): number {
  if (typeof value === 'number') return value
  return value.endsWith('m') ? Number(value.slice(0, -1)) : Math.round(Number(value) * 1_000)
}

const containerUnits: Readonly<Record<string, number>> = {
  '': 1,
  b: 1,
  k: 2 ** 10,
  m: 2 ** 20,
  g: 2 ** 30,
  t: 2 ** 40,
}

/** `512m`, `2g`, `128Mi`, `1GiB` or bytes, as container tools spell them. Undefined for anything else. */
export function containerBytes(value: string | number): number | undefined {
  if (typeof value === 'number') return Number.isInteger(value) && value > 0 ? value : undefined
  const found = /^(\d+(?:\.\d+)?)\s*([bkmgt]?)(?:i?b?)$/i.exec(value.trim())
  if (found === null) return undefined
  const bytes = Number(found[1]) * containerUnits[found[2]!.toLowerCase()]!
  return bytes >= 1 && Number.isSafeInteger(Math.round(bytes)) ? Math.round(bytes) : undefined
}

/** Millicores, as container tools spell them: `250`, `"500m"`, or CPUs as `"0.5"`. Undefined for anything else. */
export function containerMillicores(value: string | number): number | undefined {
  if (typeof value === 'number') {
    return value > 0 ? Math.round(Number.isInteger(value) ? value : value * 1_000) : undefined
  }
  const text = value.trim()
  const millis = /^(\d+)m?$/.exec(text)
  if (millis !== null) return Number(millis[1]) || undefined
  const whole = /^\d+\.\d+$/.test(text) ? Number(text) : 0
  return whole > 0 ? Math.round(whole * 1_000) : undefined
}
