import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'

const LOCK_FILE = 'owner.lock'
const SQLITE_BUSY = 5

export type OwnerLock = Readonly<{ release(): void }>

/**
 * Takes the lock of a data directory, or gives undefined when another process has it. The lock belongs to the process in
 * the kernel's eyes and goes with it, however it ends.
 *
 * Nothing else in the owning process may open and close the lock file: POSIX drops a process's locks on a file as soon as
 * the process closes any descriptor of it.
 */
export function tryOwnerLock(dataDir: string): OwnerLock | undefined {
  const database = new DatabaseSync(join(dataDir, LOCK_FILE), { timeout: 0 })
  try {
    database.exec('PRAGMA journal_mode = MEMORY; PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE')
  } catch (error) {
    database.close()
    const code = (error as { errcode?: number }).errcode ?? 0
    if ((code & 0xff) === SQLITE_BUSY) return undefined
    throw error
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
