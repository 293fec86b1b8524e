import { AppError } from '../../contract/app-error.ts'
import type { ErrorCode } from '../../contract/error-codes.ts'
import type { RequestedPath } from './requested-path.ts'

const DISPLAYED_CHARS_MAX = 200

/** The path is the caller's own text, so it is quoted. The target of a link in the workspace never goes into a message. */
export function fileError(code: ErrorCode, requested: RequestedPath, reason: string, cause?: unknown): AppError {
  const { field, text } = requested
  const path = text.length > DISPLAYED_CHARS_MAX ? `${text.slice(0, DISPLAYED_CHARS_MAX)}…` : text
  return new AppError(code, `${field}: ${JSON.stringify(path)} ${reason}`, { field, path }, { cause })
}

type Meaning = readonly [ErrorCode, string]

const meanings: Readonly<Record<string, Meaning>> = {
  ENOENT: ['ERR_FILE_NOT_FOUND', 'does not exist; list its directory to see what does'],
  ENOTDIR: ['ERR_NOT_A_DIRECTORY', 'needs a directory, and something else is there'],
  EISDIR: ['ERR_NOT_A_FILE', 'is a directory, and a file is needed'],
  EEXIST: ['ERR_ALREADY_EXISTS', 'already exists; choose another name or remove it first'],
  ENOTEMPTY: ['ERR_ALREADY_EXISTS', 'is a directory that is not empty; empty it first'],
  ENOSPC: ['ERR_DISK_FULL', 'could not be written: the disk of the workspace is full; remove files first'],
  EDQUOT: ['ERR_DISK_FULL', 'could not be written: the disk of the workspace is full; remove files first'],
  EFBIG: ['ERR_TOO_LARGE', 'would be larger than a file may be; write less'],
  EACCES: ['ERR_FILE_REFUSED', 'may not be accessed: its permissions forbid it'],
  EPERM: ['ERR_FILE_REFUSED', 'may not be accessed: the system forbids it'],
  EROFS: ['ERR_FILE_REFUSED', 'is on a read-only file system; use a path that can be written'],
  EBUSY: ['ERR_FILE_REFUSED', 'is in use as a mount point; use another path'],
  EXDEV: ['ERR_FILE_REFUSED', 'cannot be moved there in one step; copy it and remove the old one'],
  ENAMETOOLONG: ['ERR_INVALID_INPUT', 'has a name that is too long for its file system; give a shorter one'],
  EAGAIN: ['ERR_BUSY', 'is locked by a process in the workspace; call again'],
  EMFILE: ['ERR_BUSY', 'could not be opened: too many files are open; call again'],
  ENFILE: ['ERR_BUSY', 'could not be opened: too many files are open; call again'],
  ESTALE: ['ERR_BUSY', 'changed during the call; call again'],
}

/** Node has no name for this error. */
const EDQUOT = -122

export function errnoOf(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined
  const { code, errno } = error as NodeJS.ErrnoException
  if (errno === EDQUOT) return 'EDQUOT'
  return typeof code === 'string' ? code : undefined
}

/** Runs `work` and turns system errors into an AppError that names the path. */
export async function namingPath<Result>(requested: RequestedPath, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof AppError) throw error
    const meaning = meanings[errnoOf(error) ?? '']
    if (meaning !== undefined) throw fileError(meaning[0], requested, meaning[1], error)
    throw fileError(
      'ERR_INTERNAL',
      requested,
      `could not be used: the system answered ${errnoOf(error) ?? 'no code'}`,
      error,
    )
  }
}

/** Runs `work`. Returns undefined if it fails with one of these codes. */
export async function unless<Result>(codes: readonly string[], work: Promise<Result>): Promise<Result | undefined> {
  try {
    return await work
  } catch (error) {
    if (codes.includes(errnoOf(error) ?? '')) return undefined
    throw error
  }
}

export const changedMeanwhile = (requested: RequestedPath): AppError =>
  fileError('ERR_BUSY', requested, 'changed during the call: something in the workspace moves it; call again')
