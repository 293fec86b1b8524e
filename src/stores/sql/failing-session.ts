import { AppError } from '../../contract/app-error.ts'
import { fault } from '../../kernel/fault.ts'
import type { Session } from './statements.ts'

/**
 * A session whose failures say who must act: what the store could not do is ERR_STORE_UNAVAILABLE, with the driver's
 * error as its cause; what we asked wrongly stays the driver's error, which is a bug of ours wherever it arrives.
 */
export function failingSession(
  session: Session,
  options: Readonly<{
    isOurMistake(error: unknown): boolean
    /** A few words from the driver's error for the operator, free of names and of what people wrote. */
    reasonOf(error: unknown): string | undefined
    /** Whether the fault points of a transaction's statements are here. */
    isWriter: boolean
  }>,
): Session {
  const { isWriter } = options
  const failed = (error: unknown): unknown =>
    error instanceof AppError || options.isOurMistake(error) ? error : storeFailed(error, options.reasonOf(error))
  const guard = <T>(point: 'store.query' | 'store.write', work: () => T | Promise<T>): T | Promise<T> => {
    try {
      if (isWriter) fault(point)
      const answer = work()
      return answer instanceof Promise ? answer.catch((error) => Promise.reject(failed(error))) : answer
    } catch (error) {
      throw failed(error)
    }
  }
  return {
    dialect: session.dialect,
    all: (statement, args) => guard('store.query', () => session.all(statement, args)),
    get: (statement, args) => guard('store.query', () => session.get(statement, args)),
    run: (statement, args) => guard('store.write', () => session.run(statement, args)),
  }
}

export const storeFailed = (cause: unknown, reason: string | undefined): AppError =>
  new AppError(
    'ERR_STORE_UNAVAILABLE',
    'The store failed while it was used; nothing of this call was stored.',
    reason === undefined ? {} : { reason },
    { cause },
  )
