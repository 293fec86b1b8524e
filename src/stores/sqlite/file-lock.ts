import { DatabaseSync } from 'node:sqlite'

const SQLITE_BUSY = 5

/** A kernel lock on a file. It excludes all processes and this one, and ends with the process however it ends. */
type FileLock = Readonly<{
  /** Whether the lock is taken now. */
  tryTake(): boolean
  /** Releases the lock, if it was taken. */
  close(): void
}>

/**
 * Opens an existing empty file for locking; nothing is ever written to it. Node has no file locks, so SQLite's are used. No other
 * code in this process may open and close the file: POSIX drops a process's locks on a file with any descriptor of it.
 */
export function openFileLock(path: string): FileLock {
  const database = new DatabaseSync(path, { timeout: 0 })
  return {
    tryTake() {
      try {
        database.exec('PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE')
        return true
      } catch (error) {
        const code = (error as { errcode?: number }).errcode ?? 0
        if ((code & 0xff) === SQLITE_BUSY) return false
        throw error
      }
    },
    close: () => database.close(),
  }
}
