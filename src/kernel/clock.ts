/** The only source of time. `nowMs` is the wall clock; `monotonicMs` only measures spans. */
export type Clock = Readonly<{ nowMs(): number; monotonicMs(): number }>

export const systemClock: Clock = {
  nowMs: () => Date.now(),
  monotonicMs: () => performance.now(),
}

/** The longest delay of a timer; a longer one fires at once. */
export const TIMER_MS_MAX = 2 ** 31 - 1

let lastMs = Number.NaN
let lastText = ''

/** Many records have the same millisecond, so the last text is cached. */
export function isoTime(ms: number): string {
  if (ms !== lastMs) {
    lastText = new Date(ms).toISOString()
    lastMs = ms
  }
  return lastText
}
