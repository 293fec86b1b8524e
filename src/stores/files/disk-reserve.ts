import { statfsSync, statSync } from 'node:fs'
import { open, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { DiskWatch } from '../../contract/disk-watch.ts'
import type { Clock } from '../../kernel/clock.ts'
import { fault } from '../../kernel/fault.ts'
import type { Logger } from '../../kernel/logger.ts'
import type { Random } from '../../kernel/random.ts'

/** With less free space, further writes are refused. */
const FREE_BYTES_MIN = 32 * 1024 ** 2
const RESERVE_BYTES = 32 * 1024 ** 2
/** Restored only with space to spare, so that it does not alternate. */
const FREE_BYTES_AGAIN = 4 * RESERVE_BYTES
const POLL_MS = 250
const CHUNK_BYTES = 1024 ** 2

export type DiskReserve = DiskWatch &
  Readonly<{
    /** Creates the reserve, if there is space and it does not exist. */
    keep(): Promise<void>
  }>

/**
 * A file that reserves space on the disk of the store. When others have filled the disk, it is removed: then the store can record
 * what it takes to destroy things and to refuse everything else.
 */
export function createDiskReserve({
  directory,
  clock,
  random,
  logger,
}: Readonly<{ directory: string; clock: Clock; random: Random; logger: Logger }>): DiskReserve {
  const path = join(directory, 'reserve')
  let lookedMs = Number.NEGATIVE_INFINITY
  let freeBytes = Number.POSITIVE_INFINITY
  let isRequested = false
  let isReleased = false
  let working: Promise<void> | undefined

  function measureFreeBytes(): number {
    if (clock.monotonicMs() - lookedMs < POLL_MS) return freeBytes
    lookedMs = clock.monotonicMs()
    try {
      const { bavail, bsize } = statfsSync(directory)
      freeBytes = bavail * bsize
    } catch {
      // A disk that cannot be queried is no reason to refuse anything.
      freeBytes = Number.POSITIVE_INFINITY
    }
    return freeBytes
  }

  async function lay(): Promise<void> {
    if (sizeOf(path) === RESERVE_BYTES || measureFreeBytes() < FREE_BYTES_AGAIN) return
    const pending = `${path}.new`
    try {
      await occupy(pending, random.bytes(CHUNK_BYTES))
      fault('file.replace')
      await rename(pending, path)
    } catch (error) {
      await rm(pending, { force: true })
      throw error
    }
  }

  async function give(free: number): Promise<void> {
    logger.warn('the disk of the data directory is nearly full; calls that would write more are refused', { free })
    await rm(path, { force: true })
    lookedMs = Number.NEGATIVE_INFINITY
  }

  const alone = (work: () => Promise<void>): Promise<void> => {
    working ??= work()
      .catch((error: unknown) => logger.warn('the disk reserve could not be changed', { cause: String(error) }))
      .finally(() => {
        working = undefined
      })
    return working
  }

  return {
    shortage() {
      const free = measureFreeBytes()
      if (free >= FREE_BYTES_MIN) {
        if (isReleased && free >= FREE_BYTES_AGAIN) {
          isReleased = false
          if (isRequested) void alone(lay)
        }
        return isReleased ? { free, needed: FREE_BYTES_AGAIN } : undefined
      }
      const shortage = { free, needed: FREE_BYTES_AGAIN }
      if (isReleased) return shortage
      isReleased = true
      return alone(() => give(free)).then(() => shortage)
    },
    async keep() {
      if (isRequested) return
      isRequested = true
      await alone(lay)
    },
  }
}

/** For processes other than the one with the reserve: a missing reserve means that the disk is short. */
export function diskShortage(directory: string, expectsReserve: boolean): Readonly<{ free: number }> | undefined {
  const { bavail, bsize } = statfsSync(directory)
  const free = bavail * bsize
  const isReleased = expectsReserve && sizeOf(join(directory, 'reserve')) === 0
  return free < (isReleased ? FREE_BYTES_AGAIN : FREE_BYTES_MIN) ? { free } : undefined
}

const sizeOf = (path: string): number => statSync(path, { throwIfNoEntry: false })?.size ?? 0

/** Random bytes: a compressing file system would reserve no space for zeros. */
async function occupy(path: string, chunk: Uint8Array): Promise<void> {
  const file = await open(path, 'w', 0o600)
  try {
    fault('file.write')
    for (let bytes = 0; bytes < RESERVE_BYTES; bytes += chunk.length) await file.write(chunk)
  } finally {
    await file.close()
  }
}
