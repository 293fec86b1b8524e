import { AppError } from './app-error.ts'

/**
 * Errors of the machine: a file that may not be written, a full disk, a damaged database. The user who starts the program can
 * correct them, so the answer names the path and the next step.
 */
type Words = Readonly<{ problem: string; next: string }>

const elsewhere = 'or choose another directory with --data-dir'
const noAccess: Words = {
  problem: 'may not be used by your user',
  next: `Give your user the rights on it and its contents, ${elsewhere}.`,
}
const full: Words = {
  problem: 'is on a disk that is full',
  next: `Free some space there, ${elsewhere}, then start again.`,
}
const readOnly: Words = {
  problem: 'is on a file system that is read-only',
  next: `Mount it writable, ${elsewhere}.`,
}
const damaged: Words = {
  problem: 'is damaged',
  next: 'Keep a copy of it as it is, restore it from a backup, and run castellan verify.',
}

const ofSystem: Readonly<Record<string, Words>> = {
  EACCES: noAccess,
  EPERM: noAccess,
  EROFS: readOnly,
  ENOSPC: full,
  EDQUOT: full,
  EISDIR: { problem: 'is a directory, and should be a file', next: `Move it away, ${elsewhere}.` },
  ENOTDIR: { problem: 'is not inside a directory', next: `Move away the file that is in the way, ${elsewhere}.` },
  EEXIST: { problem: 'already exists as something else', next: `Move it away, ${elsewhere}.` },
  ENOENT: { problem: 'is not there', next: `Make it, ${elsewhere}.` },
  EIO: { problem: 'cannot be read or written', next: 'Check the disk and the log of the kernel.' },
  EMFILE: {
    problem: 'cannot be opened: too many files are open',
    next: 'Raise the limit (ulimit -n), then start again.',
  },
  ENFILE: { problem: 'cannot be opened: too many files are open', next: 'End other programs, then start again.' },
}

/** SQLite's results, without what it adds to them: PERM, BUSY, LOCKED, READONLY, IOERR, CORRUPT, FULL, CANTOPEN, NOTADB. */
const ofSqlite: Readonly<Record<number, Words>> = {
  3: noAccess,
  5: { problem: 'is in use by another program', next: 'End that program, then start again.' },
  6: { problem: 'is in use by another program', next: 'End that program, then start again.' },
  8: { problem: 'may not be written', next: `Give your user the right to write it and its directory, ${elsewhere}.` },
  10: { problem: 'cannot be read or written', next: `Check the disk and its free space, ${elsewhere}.` },
  11: damaged,
  13: full,
  14: { problem: 'cannot be opened', next: `Check the rights on it and on its directory, ${elsewhere}.` },
  26: damaged,
}
const DAMAGED: readonly number[] = [11, 26]

type Fault = Readonly<{ code?: unknown; errcode?: unknown; path?: unknown; address?: unknown; syscall?: unknown }>

/** Whether SQLite reports that the database is damaged. */
export const isDamage = (error: unknown): boolean => {
  const { errcode } = (error ?? {}) as Fault
  return typeof errcode === 'number' && DAMAGED.includes(errcode & 0xff)
}

/** The error as a message for people; undefined for an error that is not the machine's. `subject` is what was being used. */
export function systemFault(error: unknown, subject?: string): AppError | undefined {
  if (error instanceof AppError || !(error instanceof Error)) return undefined
  const { code, errcode, path, address, syscall } = error as Fault
  const words =
    typeof errcode === 'number'
      ? ofSqlite[errcode & 0xff]
      : typeof code === 'string' && typeof syscall === 'string'
        ? ofSystem[code]
        : undefined
  if (words === undefined) return undefined
  const where = subject ?? [path, address].find((known): known is string => typeof known === 'string') ?? 'A file'
  const reason = typeof errcode === 'number' ? error.message : String(code)
  return new AppError(
    'ERR_INIT_FAILED',
    `${where} ${words.problem} (${reason}). ${words.next}`,
    { field: 'data_dir', reason },
    { cause: error },
  )
}

/** For a `catch`: an error of the machine as a message, any other error unchanged. */
export const inWords = (error: unknown, subject?: string): unknown => systemFault(error, subject) ?? error
