import type { Clock } from '../kernel/clock.ts'

/** A server's time limit for a call. A person's time to answer its questions does not count. */
type CallDeadline = Disposable &
  Readonly<{
    signal: AbortSignal
    /** Restarts the time: the server has shown progress. */
    restart(): void
    pause(isPaused: boolean): void
  }>

export function startDeadline(clock: Clock, ms: number): CallDeadline {
  const expired = new AbortController()
  let leftMs = ms
  let sinceMs = clock.monotonicMs()
  let timer: NodeJS.Timeout | undefined

  function run(): void {
    sinceMs = clock.monotonicMs()
    timer = setTimeout(() => expired.abort(), leftMs).unref()
  }
  function hold(): void {
    clearTimeout(timer)
    if (timer !== undefined) leftMs = Math.max(1, leftMs - (clock.monotonicMs() - sinceMs))
    timer = undefined
  }
  run()
  return {
    signal: expired.signal,
    restart() {
      leftMs = ms
      if (timer === undefined) return
      clearTimeout(timer)
      run()
    },
    pause(isPaused) {
      if (isPaused) hold()
      else if (timer === undefined) run()
    },
    [Symbol.dispose]: () => clearTimeout(timer),
  }
}
