import { open } from 'node:fs/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import { sha256Hex } from '../../kernel/hash.ts'
import { createKeyedMutex } from '../../kernel/keyed-mutex.ts'
import { type Folder, onDisk, statOfFile, unless } from './vault-folders.ts'

/**
 * Locks of single notes among all processes on a vault. The files are few and never removed, because removing a lock file lets
 * two processes hold "the" lock; so two notes may share one, and then merely wait for each other.
 */
type VaultLocks = Readonly<{
  /** Runs `work` while all locks of these names are held. `folder` is where the lock files are; `vault` tells vaults apart. */
  hold<T>(
    vault: string,
    folder: Folder,
    names: readonly string[],
    signal: AbortSignal,
    work: () => Promise<T>,
  ): Promise<T>
}>

export type OpenFileLock = (path: string) => Readonly<{ tryTake(): boolean; close(): void }>

const FIRST_DELAY_MS = 1
const DELAY_MS_MAX = 50

/** The lock of a note: one of 256. */
export const lockNameOf = (path: string): string => sha256Hex(path).slice(0, 2)

export function createVaultLocks(deps: Readonly<{ openFileLock: OpenFileLock }>): VaultLocks {
  /** Among the calls of this process; polling the file would be slow and unfair. */
  const { withLock } = createKeyedMutex()

  async function holdOne<T>(folder: Folder, name: string, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    const lock = await onDisk(async () => {
      const file = `${name}.lock`
      if ((await statOfFile(folder, file)) === undefined) {
        // Nobody can hold a lock on a new file, so closing it drops none.
        await open(folder.at(file), 'wx', 0o600).then((handle) => handle.close(), unless('EEXIST'))
      }
      return deps.openFileLock(folder.at(file))
    })
    try {
      let waitedMs = 0
      for (let delayMs = FIRST_DELAY_MS; !lock.tryTake(); delayMs = Math.min(delayMs * 2, DELAY_MS_MAX)) {
        if (waitedMs >= limits.vaultLockWaitMs) throw busy(waitedMs)
        await delay(delayMs, undefined, { signal })
        waitedMs += delayMs
      }
      return await work()
    } finally {
      lock.close()
    }
  }

  return {
    hold(vault, folder, names, signal, work) {
      // Always in the same order, so that no two holders wait for each other.
      const sorted = [...new Set(names)].sort()
      const nested = sorted.reduceRight<() => ReturnType<typeof work>>(
        (inner, name) => () =>
          withLock(`${vault}/${name}`, async () => {
            signal.throwIfAborted()
            return await holdOne(folder, name, signal, inner)
          }),
        work,
      )
      return nested()
    },
  }
}

const busy = (waitedMs: number): AppError =>
  new AppError('ERR_BUSY', 'Another process is changing this note and does not finish. Try again later.', {
    waited_ms: waitedMs,
    retry_after_ms: 1_000,
  })
