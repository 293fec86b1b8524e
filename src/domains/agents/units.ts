const unitMs: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }
export const durationPattern = /^(?:\d{1,9}(?:\.\d{1,3})?(?:ms|s|m|h|d))+$|^\d{1,9}(?:\.\d{1,3})?$/

/** `120s`, `2m`, `1h30m`, `120` (seconds) or a number of seconds. */
export function durationMs(value: string | number): number {
  if (typeof value === 'number') return Math.round(value * 1_000)
  if (/^[\d.]+$/.test(value)) return Math.round(Number(value) * 1_000)
  let total = 0
  for (const [, amount, unit] of value.matchAll(/([\d.]+)(ms|s|m|h|d)/g)) total += Number(amount) * unitMs[unit!]!
  return Math.round(total)
}

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

/** Thousandths of a processor: `500`, `"500m"`, or `"2"` whole ones as text. */
export const cpuPattern = /^\d{1,6}m$|^\d{1,3}(?:\.\d{1,3})?$/
export function millicores(value: string | number): number {
  if (typeof value === 'number') return value
  return value.endsWith('m') ? Number(value.slice(0, -1)) : Math.round(Number(value) * 1_000)
}
