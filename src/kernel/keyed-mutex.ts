/**
 * Work of one key runs one after the other, in the order it came, whether it succeeds or fails. Work of other keys runs
 * meanwhile.
 */
type KeyedMutex = Readonly<{
  /** An abort while the work waits for the lock rejects with the signal's reason. Later work does not overtake earlier work. */
  withLock<T>(key: string, work: () => Promise<T>, signal?: AbortSignal): Promise<T>
}>

export function createKeyedMutex(): KeyedMutex {
  const lasts = new Map<string, Promise<void>>()
  return {
    async withLock(key, work, signal) {
      const before = lasts.get(key)
      const mine = Promise.withResolvers<void>()
      const last = Promise.all([before, mine.promise]).then(() => {
        if (lasts.get(key) === last) lasts.delete(key)
      })
      lasts.set(key, last)
      try {
        if (before !== undefined) await (signal === undefined ? before : unlessAborted(before, signal))
        return await work()
      } finally {
        mine.resolve()
      }
    },
  }
}

async function unlessAborted(wait: Promise<void>, signal: AbortSignal): Promise<void> {
  const aborted = Promise.withResolvers<never>()
  const leave = (): void => aborted.reject(signal.reason)
  if (signal.aborted) leave()
  signal.addEventListener('abort', leave, { once: true })
  try {
    await Promise.race([wait, aborted.promise])
  } finally {
    signal.removeEventListener('abort', leave)
  }
}

/** A mutex of one key: each work starts when the one before it has settled. */
export function createMutex(): <T>(work: () => Promise<T>) => Promise<T> {
  const { withLock } = createKeyedMutex()
  return (work) => withLock('', work)
}
