import { AppError } from '../../contract/app-error.ts'
import type { ErrorCode } from '../../contract/error-codes.ts'

/** The names of these failures for callers of fs.*. */
const names: Partial<Record<ErrorCode, string>> = {
  ERR_FILE_NOT_FOUND: 'NOT_FOUND',
  ERR_FILE_REFUSED: 'PERMISSION_DENIED',
  ERR_DISK_FULL: 'QuotaExceeded',
}

/** Runs `work`. If fs.* has a name for its failure, the message and `details.violation` contain that name. */
export async function naming<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    const name = error instanceof AppError ? names[error.code] : undefined
    if (name === undefined || !(error instanceof AppError)) throw error
    throw new AppError(error.code, `${name}: ${error.message}`, { ...error.details, violation: name }, { cause: error })
  }
}

export const tooLarge = (field: string, size: number, max: number): AppError =>
  new AppError(
    'ERR_TOO_LARGE',
    `'${field}' has ${size} bytes; at most ${max} are allowed. Use cmd.run to read a part of it.`,
    {
      field,
      size,
      rule: `at most ${max} bytes`,
    },
  )
