/**
 * Aborted with the signal, or after the time. `AbortSignal.any` holds its sources and its dependants weakly, and Node may lose an abort
 * when it collects garbage. Here the timer and a listener hold the result until the time is over.
 */
export function withTimeout(signal: AbortSignal, timeoutMs: number): AbortSignal {
  const ending = new AbortController()
  if (signal.aborted) {
    ending.abort(signal.reason)
    return ending.signal
  }
  const end = (reason: unknown): void => {
    clearTimeout(timer)
    signal.removeEventListener('abort', endWithSignal)
    ending.abort(reason)
  }
  const endWithSignal = (): void => end(signal.reason)
  const endTime = (): void => end(new DOMException('The operation was aborted due to timeout', 'TimeoutError'))
  const timer = setTimeout(endTime, timeoutMs).unref()
  signal.addEventListener('abort', endWithSignal)
  return ending.signal
}
