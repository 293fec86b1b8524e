import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inject } from 'vitest'
import type { Database } from '../../src/contract/database.ts'
import { systemClock } from '../../src/kernel/clock.ts'
import { type Logger, silentLogger } from '../../src/kernel/logger.ts'
import { openPostgresDatabase } from '../../src/stores/postgres/postgres-database.ts'
import { openSqliteDatabase } from '../../src/stores/sqlite/sqlite-database.ts'
import { writeEmptyStore } from './empty-store.ts'
import { createDatabase, dropDatabase } from './postgres.ts'

/** The stores that every contract suite runs over. */
export const dialects = ['SQLite', 'PostgreSQL'] as const
export type DialectName = (typeof dialects)[number]

type OpenOptions = Readonly<{ targetVersion?: number; logger?: Logger }>

/** Where one state lives: it can be opened again and again, and it starts empty. */
export type TestDatabase = Readonly<{
  /** The file of SQLite, the URL of PostgreSQL. */
  location: string
  open(options?: OpenOptions): Promise<Database>
  remove(): void
}>

/** `template`: a database of PostgreSQL that it begins as a copy of. */
export async function newTestDatabase(dialect: DialectName, template?: string): Promise<TestDatabase> {
  if (dialect === 'PostgreSQL') {
    const url = await createDatabase(inject('postgresUrl'), template)
    return {
      location: url,
      open: (options) => openPostgresDatabase({ url, clock: systemClock, logger: silentLogger, ...options }),
      remove() {},
    }
  }
  const folder = mkdtempSync(join(tmpdir(), 'castellan-store-'))
  const path = join(folder, 'state.db')
  return {
    location: path,
    open: (options) => openSqliteDatabase({ path, clock: systemClock, logger: silentLogger, ...options }),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  }
}

let migrated: Promise<string> | undefined

/** The name of a database of PostgreSQL as all migrations leave it, which nobody is connected to. */
async function makeMigrated(): Promise<string> {
  const url = await createDatabase(inject('postgresUrl'))
  await (await openPostgresDatabase({ url, clock: systemClock, logger: silentLogger })).close()
  return new URL(url).pathname.slice(1)
}

async function newMigratedDatabase(dialect: DialectName): Promise<TestDatabase> {
  if (dialect === 'PostgreSQL') {
    migrated ??= makeMigrated()
    return await newTestDatabase(dialect, await migrated)
  }
  const testDatabase = await newTestDatabase(dialect)
  await writeEmptyStore(testDatabase.location)
  return testDatabase
}

/** An empty database of its own, with all tables; closing it removes it. */
export async function openEmpty(dialect: DialectName): Promise<Database> {
  const testDatabase = await newMigratedDatabase(dialect)
  const database = await testDatabase.open()
  return {
    ...database,
    async close() {
      await database.close()
      if (dialect === 'PostgreSQL') await dropDatabase(testDatabase.location)
      else testDatabase.remove()
    },
  }
}
