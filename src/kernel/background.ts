/** Work for which no caller waits. What uses a store must end before the store is closed. */
export type Background = Readonly<{
  /** Starts the work, unless this is closed. */
  run(work: (closed: AbortSignal) => Promise<unknown>): void
  /** Starts it after the current turn, such as the transaction that is about to be committed. */
  later(work: (closed: AbortSignal) => Promise<unknown>): void
  /** Aborted when this is closed. */
  closed: AbortSignal
  /** Starts nothing more, and resolves when everything that was started has ended. */
  close(): Promise<void>
}>

export function createBackground(onFailure: (error: unknown) => void): Background {
  const running = new Set<Promise<void>>()
  const closing = new AbortController()
  const { signal } = closing

  function run(work: (closed: AbortSignal) => Promise<unknown>): void {
    if (signal.aborted) return
    const ended = work(signal)
      .then(() => {}, onFailure)
      .finally(() => running.delete(ended))
    running.add(ended)
  }
  return {
    run,
    later: (work) => void setTimeout(() => run(work), 0),
    closed: signal,
    async close() {
      closing.abort()
      await Promise.all(running)
    },
  }
}
