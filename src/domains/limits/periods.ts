import type { CleanupInterval } from '../../contract/limit-kinds.ts'

/** From `startMs` on, before `endMs`. */
export type Period = Readonly<{ startMs: number; endMs: number }>

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const fixedMs: Partial<Record<CleanupInterval, number>> = {
  '1h': HOUR_MS,
  '12h': 12 * HOUR_MS,
  '24h': DAY_MS,
  '1w': 7 * DAY_MS,
}

/**
 * The period of a limit that contains an instant. Calendar periods begin at midnight in the time zone; others count from the
 * anchor.
 */
export function periodAt(interval: CleanupInterval, anchorMs: number, nowMs: number, zone: string): Period {
  const lengthMs = fixedMs[interval]
  if (lengthMs !== undefined) {
    const startMs = anchorMs + Math.floor((nowMs - anchorMs) / lengthMs) * lengthMs
    return { startMs, endMs: startMs + lengthMs }
  }
  if (interval === '1m') return monthFrom(anchorMs, nowMs)
  const { year, month, day } = localDate(nowMs, zone)
  const from = (firstDay: number, days: number): Period => ({
    startMs: midnight(year, month, firstDay, zone),
    endMs: midnight(year, month, firstDay + days, zone),
  })
  switch (interval) {
    case 'calendar_day':
      return from(day, 1)
    case 'calendar_week_sunday':
      return from(day - weekday(year, month, day), 7)
    case 'calendar_week_monday':
      return from(day - ((weekday(year, month, day) + 6) % 7), 7)
    default:
      return { startMs: midnight(year, month, 1, zone), endMs: midnight(year, month + 1, 1, zone) }
  }
}

/** Months count from the anchor, in UTC; in a shorter month the period ends on its last day. */
function monthFrom(anchorMs: number, nowMs: number): Period {
  const anchor = new Date(anchorMs)
  const now = new Date(nowMs)
  const after = (months: number): number => {
    const year = anchor.getUTCFullYear()
    const month = anchor.getUTCMonth() + months
    const lastDay = new Date(Date.UTC(year, month + 1, 0)).getUTCDate()
    const moment = new Date(anchorMs)
    moment.setUTCFullYear(year, month, Math.min(anchor.getUTCDate(), lastDay))
    return moment.getTime()
  }
  let months = (now.getUTCFullYear() - anchor.getUTCFullYear()) * 12 + now.getUTCMonth() - anchor.getUTCMonth()
  if (after(months) > nowMs) months -= 1
  return { startMs: after(months), endMs: after(months + 1) }
}

const weekday = (year: number, month: number, day: number): number => new Date(Date.UTC(year, month, day)).getUTCDay()

type LocalDate = Readonly<{ year: number; month: number; day: number }>

/** `month` counts from 0, as in a Date. */
function localDate(ms: number, zone: string): LocalDate {
  const local = new Date(ms + offsetMs(ms, zone))
  return { year: local.getUTCFullYear(), month: local.getUTCMonth(), day: local.getUTCDate() }
}

/** When the day begins there. If clocks skip midnight, the first instant after it. */
function midnight(year: number, month: number, day: number, zone: string): number {
  const asUtc = Date.UTC(year, month, day)
  const near = asUtc - offsetMs(asUtc, zone)
  const found = asUtc - offsetMs(near, zone)
  const again = found + offsetMs(found, zone)
  return again >= asUtc ? found : asUtc - offsetMs(found, zone)
}

const formats = new Map<string, Intl.DateTimeFormat>()

/** The offset of a zone from UTC at an instant. */
function offsetMs(ms: number, zone: string): number {
  if (zone === 'UTC') return 0
  let format = formats.get(zone)
  if (format === undefined) {
    format = new Intl.DateTimeFormat('en-US', {
      timeZone: zone,
      hourCycle: 'h23',
      year: 'numeric',
      month: 'numeric',
      day: 'numeric',
      hour: 'numeric',
      minute: 'numeric',
      second: 'numeric',
    })
    formats.set(zone, format)
  }
  const parts = Object.fromEntries(format.formatToParts(ms).map(({ type, value }) => [type, Number(value)]))
  const local = Date.UTC(
    parts['year']!,
    parts['month']! - 1,
    parts['day']!,
    parts['hour']!,
    parts['minute']!,
    parts['second']!,
  )
  return local - Math.floor(ms / 1000) * 1000
}
