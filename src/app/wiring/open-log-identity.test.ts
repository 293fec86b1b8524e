import { mkdtempSync, renameSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import type { Database } from '../../contract/database.ts'
import { systemClock } from '../../kernel/clock.ts'
import { silentLogger } from '../../kernel/logger.ts'
import { systemRandom } from '../../kernel/random.ts'
import { openSqliteDatabase } from '../../stores/sqlite/sqlite-database.ts'
import { openLogIdentity } from './open-log-identity.ts'

let folder: string
let database: Database
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'castellan-identity-'))
  database = await openSqliteDatabase({ path: join(folder, 'state.db'), clock: systemClock, logger: silentLogger })
})
afterEach(async () => {
  await database.close()
  rmSync(folder, { recursive: true, force: true })
})

const open = (file: string) => openLogIdentity({ database, path: join(folder, file), random: systemRandom })

it('gives the same key every time', async () => {
  const first = await open('key.json')
  expect((await open('key.json')).signer.verifierKey).toBe(first.signer.verifierKey)
})

it('refuses to go on without the key under which the log was begun', async () => {
  await open('key.json')
  renameSync(join(folder, 'key.json'), join(folder, 'moved.json'))
  await expect(open('key.json')).rejects.toMatchObject({ code: 'ERR_INIT_FAILED' })
  await expect(open('moved.json')).resolves.toBeDefined()
})

it('refuses a server that has a key of its own', async () => {
  await open('key.json')
  const other = await openSqliteDatabase({ path: join(folder, 'other.db'), clock: systemClock, logger: silentLogger })
  await openLogIdentity({ database: other, path: join(folder, 'other-key.json'), random: systemRandom })
  await other.close()
  await expect(open('other-key.json')).rejects.toMatchObject({ code: 'ERR_INIT_FAILED' })
})

it('refuses to begin a second log under a key that a store has claimed', async () => {
  await open('key.json')
  const fresh = await openSqliteDatabase({ path: join(folder, 'fresh.db'), clock: systemClock, logger: silentLogger })
  const second = openLogIdentity({ database: fresh, path: join(folder, 'key.json'), random: systemRandom })
  await expect(second).rejects.toMatchObject({ code: 'ERR_INIT_FAILED' })
  await fresh.close()
})
