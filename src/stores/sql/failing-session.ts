import { AppError } from '../../contract/app-error.ts'
import { fault } from '../../kernel/fault.ts'
import type { StoreTraces } from './commit-batch.ts'
import type { Prepared, Session } from './statements.ts'

/**
 * A session whose errors say who must act: a failure of the store is ERR_STORE_UNAVAILABLE, with the driver's error as its cause;
 * a wrong statement stays the driver's error, which is a bug of ours.
 */
export function failingSession(
  session: Session,
  options: Readonly<{
    isOurMistake(error: unknown): boolean
    /** A short reason from the driver's error for the operator, without names or user text. */
    reasonOf(error: unknown): string | undefined
    /** Where a writing connection notes what was done; its fault points are here too. */
    traces?: StoreTraces
  }>,
): Session {
  const { traces } = options
  const failed = (error: unknown): unknown => {
    if (traces !== undefined) traces.hasFailed = true
    return error instanceof AppError || options.isOurMistake(error)
      ? error
      : storeFailed(error, options.reasonOf(error))
  }
  const settle = <T>(answer: T | Promise<T>): T | Promise<T> =>
    answer instanceof Promise ? answer.catch((error) => Promise.reject(failed(error))) : answer
  const enter = (statement: AnyStatement, point: 'store.query' | 'store.write'): void => {
    if (traces === undefined) return
    fault(point)
    if (traces.hasWritten && traces.hasChangedData) return
    const { isRead, isOfLog } = statement.prepared(session.dialect)
    if (isRead) return
    traces.hasWritten = true
    if (!isOfLog) traces.hasChangedData = true
  }
  return {
    dialect: session.dialect,
    all(statement, args) {
      try {
        enter(statement, 'store.query')
        return settle(session.all(statement, args))
      } catch (error) {
        throw failed(error)
      }
    },
    get(statement, args) {
      try {
        enter(statement, 'store.query')
        return settle(session.get(statement, args))
      } catch (error) {
        throw failed(error)
      }
    },
    run(statement, args) {
      try {
        enter(statement, 'store.write')
        return settle(session.run(statement, args))
      } catch (error) {
        throw failed(error)
      }
    },
  }
}

type AnyStatement = Readonly<{ prepared(dialect: Session['dialect']): Prepared }>

export const storeFailed = (cause: unknown, reason: string | undefined): AppError =>
  new AppError(
    'ERR_STORE_UNAVAILABLE',
    `The store failed${reason === undefined ? '' : ` (${reason})`}. Nothing of this call was stored. Run castellan doctor.`,
    reason === undefined ? {} : { reason },
    { cause },
  )
