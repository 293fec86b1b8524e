import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, inject, test } from 'vitest'
import { AppError } from '../../src/contract/app-error.ts'
import { systemClock } from '../../src/kernel/clock.ts'
import { silentLogger } from '../../src/kernel/logger.ts'
import { openPostgresDatabase } from '../../src/stores/postgres/postgres-database.ts'
import { failingSession } from '../../src/stores/sql/failing-session.ts'
import { statement } from '../../src/stores/sql/statements.ts'
import { sessionOf } from '../../src/stores/sql/tx.ts'
import { openSqliteConnection } from '../../src/stores/sqlite/connection.ts'
import { failureRules } from '../../src/stores/sqlite/failure-rules.ts'
import { newTestDatabase } from '../support/databases.ts'
import { createDatabase } from '../support/postgres.ts'
import { ACME } from '../support/sample-tasks.ts'

/** The store's failures are told apart from our own mistakes: only these are bugs, and only those are worth a retry. */
const insertProject = statement<{ slug: string }>('test.insertProject')((db, arg) =>
  db.insertInto('projects').values({ tenant: ACME, slug: arg('slug'), task_count: 0, created_at: 0, created_by: 'x' }),
)

test('a full disk is the store’s failure, with SQLite’s own word for it', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'castellan-full-'))
  const connection = openSqliteConnection(join(folder, 'state.db'), { readOnly: false })
  connection.execute('CREATE TABLE projects (tenant, slug, task_count, created_at, created_by)')
  connection.execute('PRAGMA max_page_count = 2')
  const session = failingSession(connection, failureRules)
  const write = async () => await session.run(insertProject, { slug: 'x'.repeat(100_000) })
  await expect(write()).rejects.toMatchObject({
    code: 'ERR_STORE_UNAVAILABLE',
    details: { reason: 'database or disk is full' },
  })
  connection.close()
  rmSync(folder, { recursive: true, force: true })
})

test.each(['SQLite', 'PostgreSQL'] as const)(
  'in %s a broken constraint is our mistake, not the store’s',
  async (dialect) => {
    const testDatabase = await newTestDatabase(dialect)
    const database = await testDatabase.open()
    const twice = database.write(ACME, async (tx) => {
      for (let time = 0; time < 2; time++) await sessionOf(tx).run(insertProject, { slug: 'same' })
    })
    const error = await twice.catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(Error)
    expect(error).not.toBeInstanceOf(AppError)
    await database.close()
    testDatabase.remove()
  },
)

test('a PostgreSQL server that acknowledges before it syncs is warned about', async () => {
  const url = new URL(await createDatabase(inject('postgresUrl')))
  const warnings: string[] = []
  const logger = { ...silentLogger, warn: (message: string) => void warnings.push(message) }
  const open = async () => (await openPostgresDatabase({ url: url.href, clock: systemClock, logger })).close()
  await open()
  expect(warnings).toEqual([])
  url.searchParams.set('options', '-c synchronous_commit=off')
  await open()
  expect(warnings).toEqual([expect.stringContaining('synchronous_commit is off')])
})
