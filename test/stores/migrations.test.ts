import { readFileSync, writeFileSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { afterEach, describe, expect, it } from 'vitest'
import type { Database } from '../../src/contract/database.ts'
import { systemClock } from '../../src/kernel/clock.ts'
import { installFaultPlan } from '../../src/kernel/fault.ts'
import { silentLogger } from '../../src/kernel/logger.ts'
import { openPostgresDatabase } from '../../src/stores/postgres/postgres-database.ts'
import { sqlApiKeyStore as keys } from '../../src/stores/sql/api-key-store.ts'
import { sqlLogStore as log } from '../../src/stores/sql/log-store.ts'
import { migrations } from '../../src/stores/sql/migrations.ts'
import { sqlTaskStore as tasks } from '../../src/stores/sql/task-store.ts'
import { sqlTrailStore as trail } from '../../src/stores/sql/trail-store.ts'
import { type DialectName, dialects, newPlace, type Place } from '../support/databases.ts'
import { withClient } from '../support/postgres.ts'
import { ACME, addTask, NOW } from '../support/sample-tasks.ts'

const latest = migrations.length
/** What each version brought: how to write some of it, and how to see that it is still there. */
const features: readonly Readonly<{
  since: number
  write(database: Database): Promise<unknown>
  read(database: Database): Promise<unknown>
}>[] = [
  {
    since: 1,
    write: (database) =>
      database.write(ACME, (unit) =>
        log.appendEntry(unit, ACME, { atMs: NOW, record: '{"a":"ü"}', taskNumber: 1, recordHash: 'h' }),
      ),
    read: async (database) => [await log.head(database.read, ACME), await log.entries(database.read, ACME, 0, 99)],
  },
  {
    since: 2,
    write: (database) =>
      database.write(ACME, (unit) =>
        keys.insertKey(unit, ACME, {
          ...{ tenant: ACME, id: 'k', prefix: 'p', hash: 'h', name: 'ann', role: 'editor', tier: 'user', scopes: null },
          ...{ createdAtMs: NOW, createdBy: 'owner', expiresAtMs: null, lastUsedAtMs: null, revokedAtMs: null },
        }),
      ),
    read: (database) => keys.listKeys(database.read, ACME, 99),
  },
  {
    since: 3,
    async write(database) {
      await addTask(database, ACME, { title: 'Running Ärzte', labels: ['x'], parentNumber: 1 })
      await addTask(database, ACME, { description: 'see docs/guide.md' })
      await database.write(ACME, (unit) => tasks.replaceDependencies(unit, ACME, 2, [1]))
      await database.write(ACME, (unit) =>
        trail.insertThought(unit, ACME, {
          ...{ number: trail.takeThoughtNumber(unit, ACME), taskNumber: 1, chainPosition: 1, logSeq: 0, type: 'risk' },
          ...{ content: 'c', branch: null, commitSha: null, testsRun: null, blockers: null, metadata: { a: 1 } },
          ...{ hash: 'h', previousHash: null, recordedAtMs: NOW, recordedBy: 'owner' },
        }),
      )
      await database.write(ACME, (unit) =>
        trail.insertSession(unit, ACME, {
          ...{
            number: trail.takeSessionNumber(unit, ACME),
            taskNumber: 1,
            auditorId: 'a',
            reason: null,
            scope: 'deep',
          },
          ...{ startedAtMs: NOW, startedBy: 'owner', startSeq: 1, finalized: null },
        }),
      )
    },
    read: async ({ read }) => [
      await tasks.findTask(read, ACME, 1),
      await tasks.findTask(read, ACME, 2),
      await tasks.countTasks(read, ACME, { label: 'x' }),
      await tasks.dependencyNumbers(read, ACME, 2),
      await tasks.listProjects(read, ACME, { limit: 9, offset: 0 }),
      await trail.listThoughts(read, ACME, {}, { limit: 9, offset: 0 }),
      await trail.findSession(read, ACME, 1),
    ],
  },
]

describe.each(dialects)('migrations in %s', (dialect) => {
  let place: Place
  const opened: Database[] = []
  const open = async (targetVersion = latest) => {
    const database = await place.open({ targetVersion })
    opened.push(database)
    return database
  }
  afterEach(async () => {
    installFaultPlan(undefined)
    await Promise.all(opened.splice(0).map((database) => database.close()))
    place.remove()
  })

  it.each(migrations.map((_, index) => index))('carry the data of version %i to the latest', async (version) => {
    place = await newPlace(dialect)
    const old = await open(version)
    expect(old.schemaVersion).toBe(version)
    const known = features.filter((feature) => feature.since <= version)
    const before: unknown[] = []
    for (const feature of known) await feature.write(old)
    for (const feature of known) before.push(await feature.read(old))
    await old.close()
    const migrated = await open()
    expect(migrated.schemaVersion).toBe(latest)
    for (const [index, feature] of known.entries()) expect(await feature.read(migrated)).toEqual(before[index])
    for (const feature of features.filter((feature) => feature.since > version)) await feature.write(migrated)
    const found = async (word: string) => tasks.countTasks(migrated.read, ACME, { words: [word] })
    expect([await found('run'), await found('arzte'), await found('guide'), await found('none')]).toEqual([1, 1, 1, 0])
    await addTask(migrated, ACME, { title: 'Runs again' })
    expect(await found('running')).toBe(2)
  })

  it('do nothing to a database that is up to date', async () => {
    place = await newPlace(dialect)
    await (await open()).close()
    installFaultPlan((point) => {
      if (point === 'store.migrate') throw new Error('migrated again')
    })
    expect((await open()).schemaVersion).toBe(latest)
  })

  it.each(migrations.map((_, index) => index + 1))(
    'leave the old version when number %i fails midway',
    async (failing) => {
      place = await newPlace(dialect)
      let count = 0
      installFaultPlan((point) => {
        if (point === 'store.migrate' && ++count === failing) throw new Error('injected')
      })
      await expect(open()).rejects.toMatchObject({ code: 'ERR_INIT_FAILED' })
      expect(await storedVersion(dialect, place)).toBe(failing - 1)
      installFaultPlan(undefined)
      const next = await open()
      for (const feature of features) await feature.write(next)
      expect(next.schemaVersion).toBe(latest)
    },
  )

  it('refuse a database of a newer program and leave it as it is', async () => {
    place = await newPlace(dialect)
    const database = await open()
    for (const feature of features) await feature.write(database)
    const held = await Promise.all(features.map((feature) => feature.read(database)))
    await database.close()
    await setStoredVersion(dialect, place, latest + 1)
    const before = dialect === 'SQLite' ? readFileSync(place.location) : undefined
    await expect(open()).rejects.toMatchObject({
      code: 'ERR_INIT_FAILED',
      details: { schema_version: latest + 1, known_version: latest },
    })
    expect(await storedVersion(dialect, place)).toBe(latest + 1)
    if (before !== undefined) expect(readFileSync(place.location).equals(before)).toBe(true)
    await setStoredVersion(dialect, place, latest)
    const again = await open()
    expect(await Promise.all(features.map((feature) => feature.read(again)))).toEqual(held)
  })

  it('are run once when several open the same database at once', async () => {
    place = await newPlace(dialect)
    let count = 0
    installFaultPlan((point) => {
      if (point === 'store.migrate') count++
    })
    const both = await Promise.all([open(), open(), open()])
    expect(both.map((database) => database.schemaVersion)).toEqual([latest, latest, latest])
    expect(count).toBe(latest)
    for (const feature of features) await feature.write(both[0]!)
    expect(await log.tenants(both[1]!.read)).toEqual([ACME])
  })
})

describe('what cannot be opened', () => {
  it('is refused by name: a server that is not there', async () => {
    const url = 'postgres://castellan:geheim@127.0.0.1:1/none'
    const opening = openPostgresDatabase({ url, clock: systemClock, logger: silentLogger })
    await expect(opening).rejects.toMatchObject({ code: 'ERR_INIT_FAILED', details: { field: 'database_url' } })
    await expect(opening).rejects.not.toThrow('geheim')
  })

  it('is refused by name and left alone: a file that is no database', async () => {
    const place = await newPlace('SQLite')
    writeFileSync(place.location, 'not a database, but long enough to be looked at as one. '.repeat(100))
    const before = readFileSync(place.location)
    await expect(place.open()).rejects.toMatchObject({ code: 'ERR_INIT_FAILED', details: { field: 'data_dir' } })
    expect(readFileSync(place.location).equals(before)).toBe(true)
    place.remove()
  })
})

async function storedVersion(dialect: DialectName, { location }: Place): Promise<number> {
  if (dialect === 'PostgreSQL') {
    return await withClient(
      location,
      async (client) => (await client.query('SELECT version FROM schema_version')).rows[0].version,
    )
  }
  const database = new DatabaseSync(location)
  const row = database.prepare('PRAGMA user_version').get() as { user_version: number }
  database.close()
  return row.user_version
}

async function setStoredVersion(dialect: DialectName, { location }: Place, version: number): Promise<void> {
  if (dialect === 'PostgreSQL') {
    await withClient(location, (client) => client.query('UPDATE schema_version SET version = $1', [version]))
    return
  }
  const database = new DatabaseSync(location)
  database.exec(`PRAGMA user_version = ${version}`)
  database.close()
}
