import { getMigrations } from 'better-auth/db/migration'
import { describe, expect, test } from 'vitest'
import { createAuth } from '../../src/accounts/create-auth.ts'
import { createPasswords } from '../../src/domains/people/password.ts'
import { systemClock } from '../../src/kernel/clock.ts'
import { silentLogger } from '../../src/kernel/logger.ts'
import { systemRandom } from '../../src/kernel/random.ts'
import { createLibraryDatabase } from '../../src/stores/sql/library-database.ts'
import { openEmpty } from '../support/databases.ts'

/** better-auth writes to tables that our migrations made: it must find there what it would have made itself. */
describe('the tables of accounts', () => {
  test('have every column that better-auth expects', async () => {
    const database = await openEmpty('SQLite')
    const auth = createAuth(
      {
        db: createLibraryDatabase(database),
        secret: systemRandom.bytes(32).toString('base64url'),
        passwords: createPasswords(systemRandom),
        random: systemRandom,
        logger: silentLogger,
        fetchDocument: fetch,
        clock: systemClock,
        devices: {} as never,
      },
      'https://castellan.example',
    )
    const { toBeCreated, toBeAdded } = await getMigrations(auth.options)
    expect(toBeCreated.map(({ table }) => table)).toEqual([])
    expect(toBeAdded.map(({ table, fields }) => [table, Object.keys(fields)])).toEqual([])
    await database.close()
  })
})
