import type { Clock } from './clock.ts'

/** Long work that shares its thread: between steps it lets others run, hears that it is cancelled, and knows its time. */
export type TimeSlicer = Readonly<{
  /** To be awaited between steps; costs next to nothing unless it is time to let others run. */
  pause(): Promise<void> | undefined
  spentMs(): number
}>

const SLICE_MS = 10

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
