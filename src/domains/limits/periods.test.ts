import { describe, expect, it } from 'vitest'
import { type CleanupInterval, cleanupIntervals } from '../../contract/limit-kinds.ts'
import { periodAt } from './periods.ts'

const at = (text: string): number => Date.parse(text)
const period = (interval: CleanupInterval, anchor: string, now: string, zone = 'UTC'): string[] => {
  const { startMs, endMs } = periodAt(interval, at(anchor), at(now), zone)
  return [new Date(startMs).toISOString(), new Date(endMs).toISOString()]
}
const ANCHOR = '2026-01-31T10:30:00.000Z'

describe('the period of a limit', () => {
  it.each([
    ['1h', '2026-01-31T12:29:59.999Z', ['2026-01-31T11:30:00.000Z', '2026-01-31T12:30:00.000Z']],
    ['1h', '2026-01-31T12:30:00.000Z', ['2026-01-31T12:30:00.000Z', '2026-01-31T13:30:00.000Z']],
    ['12h', '2026-02-01T00:00:00.000Z', ['2026-01-31T22:30:00.000Z', '2026-02-01T10:30:00.000Z']],
    ['24h', '2026-02-02T10:29:00.000Z', ['2026-02-01T10:30:00.000Z', '2026-02-02T10:30:00.000Z']],
    ['1w', '2026-02-07T10:30:00.000Z', ['2026-02-07T10:30:00.000Z', '2026-02-14T10:30:00.000Z']],
    ['1m', '2026-02-28T10:29:00.000Z', ['2026-01-31T10:30:00.000Z', '2026-02-28T10:30:00.000Z']],
    ['1m', '2026-03-01T00:00:00.000Z', ['2026-02-28T10:30:00.000Z', '2026-03-31T10:30:00.000Z']],
    ['1m', '2027-01-31T10:30:00.000Z', ['2027-01-31T10:30:00.000Z', '2027-02-28T10:30:00.000Z']],
  ] as const)('counts %s from the anchor: %s', (interval, now, expected) => {
    expect(period(interval, ANCHOR, now)).toEqual(expected)
  })

  it.each([
    ['calendar_day', '2026-03-29T12:00:00Z', 'Europe/Rome', ['2026-03-28T23:00:00.000Z', '2026-03-29T22:00:00.000Z']],
    ['calendar_day', '2026-10-25T12:00:00Z', 'Europe/Rome', ['2026-10-24T22:00:00.000Z', '2026-10-25T23:00:00.000Z']],
    [
      'calendar_day',
      '2026-01-01T03:00:00Z',
      'America/New_York',
      ['2025-12-31T05:00:00.000Z', '2026-01-01T05:00:00.000Z'],
    ],
    [
      'calendar_month',
      '2026-12-31T23:30:00Z',
      'Asia/Kolkata',
      ['2026-12-31T18:30:00.000Z', '2027-01-31T18:30:00.000Z'],
    ],
    ['calendar_month', '2026-11-17T10:00:00Z', 'UTC', ['2026-11-01T00:00:00.000Z', '2026-12-01T00:00:00.000Z']],
    ['calendar_week_monday', '2026-11-15T10:00:00Z', 'UTC', ['2026-11-09T00:00:00.000Z', '2026-11-16T00:00:00.000Z']],
    ['calendar_week_sunday', '2026-11-15T10:00:00Z', 'UTC', ['2026-11-15T00:00:00.000Z', '2026-11-22T00:00:00.000Z']],
    ['calendar_week_sunday', '2026-11-14T10:00:00Z', 'UTC', ['2026-11-08T00:00:00.000Z', '2026-11-15T00:00:00.000Z']],
    // In 2018 clocks there went from 23:59:59 to 01:00.
    [
      'calendar_day',
      '2018-11-04T12:00:00Z',
      'America/Sao_Paulo',
      ['2018-11-04T03:00:00.000Z', '2018-11-05T02:00:00.000Z'],
    ],
  ] as const)('begins %s at midnight: %s in %s', (interval, now, zone, expected) => {
    expect(period(interval, ANCHOR, now, zone)).toEqual(expected)
  })

  it.each(cleanupIntervals)('of %s holds the instant, and the next begins where it ends', (interval) => {
    const zones = ['UTC', 'Europe/Rome', 'America/New_York', 'Pacific/Apia', 'Asia/Kathmandu']
    for (const zone of zones) {
      for (let hour = 0; hour < 2 * 366 * 24; hour += 97) {
        const nowMs = at(ANCHOR) + hour * 3_600_000
        const { startMs, endMs } = periodAt(interval, at(ANCHOR), nowMs, zone)
        expect(startMs <= nowMs && nowMs < endMs).toBe(true)
        expect(periodAt(interval, at(ANCHOR), endMs, zone).startMs).toBe(endMs)
        expect(periodAt(interval, at(ANCHOR), startMs, zone)).toEqual({ startMs, endMs })
      }
    }
  })
})
