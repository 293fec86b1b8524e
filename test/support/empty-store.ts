import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { systemClock } from '../../src/kernel/clock.ts'
import { silentLogger } from '../../src/kernel/logger.ts'
import { openSqliteDatabase } from '../../src/stores/sqlite/sqlite-database.ts'

let made: Promise<Buffer> | undefined

/** A store as all migrations leave it, made once for the process: most of what a new one takes is the waiting for the disk. */
export async function writeEmptyStore(path: string): Promise<void> {
  made ??= makeEmptyStore()
  writeFileSync(path, await made, { mode: 0o600 })
}

async function makeEmptyStore(): Promise<Buffer> {
  const folder = mkdtempSync(join(tmpdir(), 'castellan-empty-'))
  const path = join(folder, 'empty.db')
  try {
    await (await openSqliteDatabase({ path, clock: systemClock, logger: silentLogger })).close()
    return readFileSync(path)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
