import { accessSync, constants, readFileSync, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { isLongRun } from './long-run.ts'

const TMPFS_MAGIC = 0x01021994
const IN_MEMORY = '/dev/shm'
/** Several times what the tests hold at once. */
const FREE_BYTES_MIN = 6 * 2 ** 30

/**
 * Where tests make their folders: in memory where there is room, because most of what a store takes is the waiting for the
 * disk, and no process that ends loses what it wrote there. `TMPDIR` has the last word, and the long run is on a disk.
 */
export const quickFolder = (): string =>
  process.env['TMPDIR'] === undefined && !isLongRun && hasRoomInMemory() ? IN_MEMORY : tmpdir()

function hasRoomInMemory(): boolean {
  try {
    accessSync(IN_MEMORY, constants.W_OK | constants.X_OK)
    const { type, bavail, bsize } = statfsSync(IN_MEMORY)
    const availableKb = Number(/^MemAvailable:\s+(\d+)/m.exec(readFileSync('/proc/meminfo', 'utf8'))?.[1])
    return type === TMPFS_MAGIC && Math.min(bavail * bsize, availableKb * 1024) >= FREE_BYTES_MIN
  } catch {
    return false
  }
}
