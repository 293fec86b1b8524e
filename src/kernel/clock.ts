/** The only source of time. `nowMs` is the wall clock; `monotonicMs` only measures spans. */
export type Clock = Readonly<{ nowMs(): number; monotonicMs(): number }>

export const systemClock: Clock = {
  nowMs: () => Date.now(),
  monotonicMs: () => performance.now(),
}

export const isoTime = (ms: number): string => new Date(ms).toISOString()
