import { fstatSync, ftruncateSync, readSync, writeSync } from 'node:fs'
import { isoTime, systemClock } from '../kernel/clock.ts'
import type { Logger } from '../kernel/logger.ts'

/** One file for the life of the supervisor, which may be months. */
export const LOG_BYTES_MAX = 10 * 1024 * 1024
const RETAINED_BYTES = 1024 * 1024

/**
 * Writes one JSON line for each message to `descriptor`, which is open for reading and appending. When the file is too large,
 * only its end is retained. A line that cannot be written is dropped, because a full disk must not end the workspaces.
 */
export function createSupervisorLog(descriptor: number): Logger {
  function write(level: string, message: string, fields?: Record<string, unknown>): void {
    try {
      if (fstatSync(descriptor).size > LOG_BYTES_MAX) keepEnd()
      writeSync(descriptor, `${JSON.stringify({ at: isoTime(systemClock.nowMs()), level, message, ...fields })}\n`)
    } catch {
      // There is nowhere to report the failure.
    }
  }
  function keepEnd(): void {
    const end = Buffer.alloc(RETAINED_BYTES)
    const count = readSync(descriptor, end, 0, RETAINED_BYTES, fstatSync(descriptor).size - RETAINED_BYTES)
    ftruncateSync(descriptor, 0)
    writeSync(descriptor, end.subarray(end.indexOf(0x0a) + 1, count))
  }
  return {
    debug() {},
    info: (message, fields) => write('info', message, fields),
    warn: (message, fields) => write('warn', message, fields),
    error: (message, fields) => write('error', message, fields),
  }
}
