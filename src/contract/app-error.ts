import { type ErrorCode, type ErrorEntry, errorCodes } from './error-codes.ts'

export type ErrorDetails = Readonly<Record<string, unknown>>

/**
 * The one error that crosses layers. `message` is written for the caller; upstream or user-written text never goes into
 * it unmarked. Transports translate it once; domains know no protocol.
 */
export class AppError extends Error {
  override name = 'AppError'
  readonly code: ErrorCode
  readonly details: ErrorDetails
  /** The names of the details that another system wrote: a caller that reads them is no more trusted than after a result. */
  readonly quotes: readonly string[]

  constructor(
    code: ErrorCode,
    message: string,
    details: ErrorDetails = {},
    options?: { cause?: unknown; quotes?: readonly string[] },
  ) {
    super(message, options)
    this.code = code
    this.details = details
    this.quotes = options?.quotes ?? []
  }

  get entry(): ErrorEntry {
    return errorCodes[this.code]
  }
}
