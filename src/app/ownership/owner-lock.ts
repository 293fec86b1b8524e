import { chmodSync, closeSync, openSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { inWords } from '../../contract/system-fault.ts'

const LOCK_FILE = 'owner.lock'
const SQLITE_BUSY = 5

export type OwnerLock = Readonly<{ release(): void }>

/** Takes the lock of a data directory, or returns undefined if another process has it. */
export const tryOwnerLock = (dataDir: string): OwnerLock | undefined => tryFileLock(join(dataDir, LOCK_FILE))

/**
 * Takes the lock on a file, or returns undefined if another process has it. The kernel releases the lock when the process ends,
 * however it ends. No other code in the owning process may open and close the lock file: POSIX drops a process's locks on a file
 * as soon as the process closes any descriptor of it.
 */
export function tryFileLock(file: string): OwnerLock | undefined {
  const database = openLockFile(file)
  try {
    database.exec('PRAGMA journal_mode = MEMORY; PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE')
  } catch (error) {
    database.close()
    const code = (error as { errcode?: number }).errcode ?? 0
    if ((code & 0xff) === SQLITE_BUSY) return undefined
    throw inWords(error, file)
  }
  let isHeld = true
  return {
    release() {
      if (!isHeld) return
      isHeld = false
      database.close()
    },
  }
}

function openLockFile(file: string): DatabaseSync {
  try {
    keepPrivate(file)
    return new DatabaseSync(file, { timeout: 0 })
  } catch (error) {
    throw inWords(error, file)
  }
}

/**
 * Another user who can open the file could lock it. Only a new file is opened here: nobody can hold a lock on it yet, so closing
 * it drops none.
 */
function keepPrivate(file: string): void {
  try {
    closeSync(openSync(file, 'wx', 0o600))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    if ((statSync(file).mode & 0o077) !== 0) chmodSync(file, 0o600)
  }
}
