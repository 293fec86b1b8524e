import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)

export type SlowDisk = Readonly<
  { available: true; environment: Record<string, string> } | { available: false; reason: string }
>

/**
 * Builds the preload library into `directory` and says which environment makes a process' fsync slower by `extraMs`.
 * Unavailable, with the reason, where there is no gcc: rows that need it are then skipped, not guessed.
 */
export const buildSlowDisk = async (directory: string, extraMs: number): Promise<SlowDisk> => {
  const library = join(directory, 'slow-fsync.so')
  try {
    await run('gcc', ['-O2', '-shared', '-fPIC', '-o', library, join(import.meta.dirname, 'slow-fsync.c'), '-ldl'])
  } catch (error) {
    const missing = (error as NodeJS.ErrnoException).code === 'ENOENT'
    return { available: false, reason: missing ? 'gcc is not installed' : `gcc failed: ${(error as Error).message}` }
  }
  return { available: true, environment: { LD_PRELOAD: library, SLOW_FSYNC_MS: String(extraMs) } }
}

const fsyncProbe = `
const fs = require('node:fs'), file = process.argv[1] + '/fsync-probe', handle = fs.openSync(file, 'w'), times = []
for (let n = 0; n < 21; n++) {
  fs.writeSync(handle, 'x'.repeat(4096), 0)
  const begun = performance.now(); fs.fdatasyncSync(handle); times.push(performance.now() - begun)
}
fs.closeSync(handle); fs.unlinkSync(file)
console.log(times.sort((a, b) => a - b)[10])`

/** The median cost of one fdatasync in `directory`, in milliseconds, as a process with that environment sees it. */
export const measureFsyncMs = async (directory: string, environment: Record<string, string> = {}): Promise<number> => {
  const { stdout } = await run(process.execPath, ['-e', fsyncProbe, directory], {
    env: { ...process.env, ...environment },
  })
  return Number(stdout)
}
