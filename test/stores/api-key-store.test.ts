import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { systemClock } from '../../src/kernel/clock.ts'
import { silentLogger } from '../../src/kernel/logger.ts'
import { openSqliteDatabase } from '../../src/stores/sqlite/sqlite-database.ts'
import { apiKeyStoreSuite } from './api-key-store-suite.ts'

apiKeyStoreSuite('SQLite', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'castellan-keys-'))
  const database = await openSqliteDatabase({
    path: join(folder, 'state.db'),
    clock: systemClock,
    logger: silentLogger,
  })
  return {
    ...database,
    async close() {
      await database.close()
      rmSync(folder, { recursive: true })
    },
  }
})
