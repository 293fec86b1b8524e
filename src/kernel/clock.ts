/** The only source of time. `nowMs` is the wall clock; `monotonicMs` only measures spans. */
export type Clock = Readonly<{ nowMs(): number; monotonicMs(): number }>

export const systemClock: Clock = {
  nowMs: () => Date.now(),
  monotonicMs: () => performance.now(),
}

/** The longest time that a timer takes; longer is none at all to it. */
export const TIMER_MS_MAX = 2 ** 31 - 1

let lastMs = Number.NaN
let lastText = ''

/** Many records of one millisecond are usual, so the last text is kept. */
export function isoTime(ms: number): string {
  if (ms !== lastMs) {
    lastText = new Date(ms).toISOString()
    lastMs = ms
  }
  return lastText
}
