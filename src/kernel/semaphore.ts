/** At most so many at once; the others wait in the order they came. */
type Semaphore = Readonly<{
  /** A caller that is aborted while it waits leaves the queue, with the reason of its signal. */
  run<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T>
}>

export function createSemaphore(max: number): Semaphore {
  const waiting: (() => void)[] = []
  let free = max

  const turn = (signal: AbortSignal | undefined): Promise<void> =>
    new Promise((resolve, reject) => {
      const enter = (): void => {
        signal?.removeEventListener('abort', leave)
        resolve()
      }
      const leave = (): void => {
        waiting.splice(waiting.indexOf(enter), 1)
        reject(signal!.reason)
      }
      waiting.push(enter)
      signal?.addEventListener('abort', leave, { once: true })
    })

  return {
    async run(work, signal) {
      signal?.throwIfAborted()
      if (free > 0) free--
      else await turn(signal)
      try {
        return await work()
      } finally {
        const next = waiting.shift()
        if (next === undefined) free++
        else next()
      }
    },
  }
}
