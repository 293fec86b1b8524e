import type { Clock } from './clock.ts'

/** Long work that shares its thread: between steps it yields, checks for cancellation, and knows its time. */
export type TimeSlicer = Readonly<{
  /** Await it between steps; nearly free unless it is time to yield. */
  pause(): Promise<void> | undefined
  spentMs(): number
}>

const SLICE_MS = 5

/** Resolves after everything that waits now was served. */
export const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

export function createTimeSlicer(clock: Clock, signal: AbortSignal): TimeSlicer {
  const startedMs = clock.monotonicMs()
  let sliceMs = startedMs
  return {
    spentMs: () => clock.monotonicMs() - startedMs,
    pause() {
      if (clock.monotonicMs() - sliceMs < SLICE_MS) return undefined
      return new Promise((resolve, reject) =>
        setImmediate(() => {
          sliceMs = clock.monotonicMs()
          if (signal.aborted) reject(signal.reason as Error)
          else resolve()
        }),
      )
    },
  }
}
