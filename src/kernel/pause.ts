import { TIMER_MS_MAX } from './clock.ts'

/** Resolves after the time. Rejects at once, with the signal's reason, when the work is stopped. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted()
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const stop = (): void => reject(signal.reason)
  signal.addEventListener('abort', stop, { once: true })
  const timer = setTimeout(resolve, Math.min(Math.max(ms, 0), TIMER_MS_MAX))
  try {
    await promise
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', stop)
  }
}
