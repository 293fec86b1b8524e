import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Database } from '../../contract/database.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { Logger } from '../../kernel/logger.ts'
import type { Random } from '../../kernel/random.ts'
import type { Config } from '../config.ts'
import { stateDirectory } from '../state-directory.ts'

export type OpenedDatabase = Readonly<{
  database: Database
  /** Where the files that belong to the store are kept. */
  directory: string
  cleanUp(): Promise<void>
}>

/**
 * PostgreSQL if a URL is configured, else the embedded store in the data directory. Mode TEST uses neither: it works in a
 * temporary directory.
 */
export async function openDatabase(deps: {
  config: Config
  clock: Clock
  logger: Logger
  random: Random
}): Promise<OpenedDatabase> {
  const { config, clock, logger } = deps
  if (config.mode !== 'TEST' && config.database_url !== undefined) {
    const { openPostgresDatabase } = await import('../../stores/postgres/postgres-database.ts')
    const database = await openPostgresDatabase({ url: config.database_url.reveal(), clock, logger })
    return { database, directory: stateDirectory(config), cleanUp: async () => {} }
  }
  const { openSqliteDatabase } = await import('../../stores/sqlite/sqlite-database.ts')
  const testing = config.mode === 'TEST'
  const directory = testing ? await mkdtemp(join(tmpdir(), 'castellan-test-')) : config.data_dir
  const database = await openSqliteDatabase({ path: join(directory, 'castellan.db'), clock, logger })
  return {
    database,
    directory,
    cleanUp: async () => {
      if (testing) await rm(directory, { recursive: true, force: true })
    },
  }
}
