import { AppError } from '../../contract/app-error.ts'

/** Work of the same key runs one after the other, in the order it came. Who is cancelled while waiting leaves. */
export type Turns = <T>(key: string, signal: AbortSignal, work: () => Promise<T>) => Promise<T>

export function createTurns(): Turns {
  const lasts = new Map<string, Promise<void>>()
  return async (key, signal, work) => {
    const before = lasts.get(key)
    const mine = Promise.withResolvers<void>()
    const last = Promise.all([before, mine.promise]).then(() => {
      if (lasts.get(key) === last) lasts.delete(key)
    })
    lasts.set(key, last)
    try {
      if (before !== undefined) await unlessAborted(before, signal)
      return await work()
    } finally {
      mine.resolve()
    }
  }
}

async function unlessAborted(wait: Promise<void>, signal: AbortSignal): Promise<void> {
  const aborted = Promise.withResolvers<never>()
  const leave = (): void => aborted.reject(new AppError('ERR_CANCELLED', 'The call was cancelled.'))
  if (signal.aborted) leave()
  signal.addEventListener('abort', leave, { once: true })
  try {
    await Promise.race([wait, aborted.promise])
  } finally {
    signal.removeEventListener('abort', leave)
  }
}
