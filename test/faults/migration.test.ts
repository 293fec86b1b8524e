import { DatabaseSync } from 'node:sqlite'
import { afterEach, describe, expect, test } from 'vitest'
import { installFaultPlan } from '../../src/kernel/fault.ts'
import { migrations } from '../../src/stores/sql/migrations.ts'
import { type DialectName, dialects, newTestDatabase, type TestDatabase } from '../support/databases.ts'
import { isLongRun } from '../support/long-run.ts'
import { withClient } from '../support/postgres.ts'

afterEach(() => installFaultPlan(undefined))

type Shape = Readonly<{ version: number; objects: readonly string[] }>

/** The version that a database says it has, and everything that is in it. */
async function shapeOf(dialect: DialectName, { location }: TestDatabase): Promise<Shape> {
  if (dialect === 'SQLite') {
    const database = new DatabaseSync(location, { readOnly: true })
    const { user_version } = database.prepare('PRAGMA user_version').get() as { user_version: number }
    const rows = database.prepare('SELECT type, name, sql FROM sqlite_schema ORDER BY name').all()
    database.close()
    return { version: user_version, objects: rows.map((row) => JSON.stringify(row)) }
  }
  return await withClient(location, async (client) => {
    const { rows } = await client.query('SELECT version FROM schema_version')
    const columns = await client.query(
      `SELECT table_name, column_name, data_type FROM information_schema.columns WHERE table_schema = 'public' ORDER BY 1, 2`,
    )
    const indexes = await client.query(`SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1`)
    return { version: rows[0].version, objects: [...columns.rows, ...indexes.rows].map((row) => JSON.stringify(row)) }
  })
}

/** Of the migrations that a database lacks when it is opened, the one that fails is the third: those before it are undone with it. */
const MISSING = 3

function failAtMigration(count: number): void {
  let seen = 0
  installFaultPlan((point) => {
    if (point === 'store.migrate' && ++seen === count) throw new Error('planned')
  })
}

/** Each migration; over PostgreSQL, where a database takes long to make, each only in the long run, and otherwise every tenth and the last. */
const failingAt = (dialect: DialectName): number[] =>
  migrations.flatMap((_, index) => {
    const fails = dialect === 'SQLite' || isLongRun || index % 10 === 0 || index === migrations.length - 1
    return fails ? [index + 1] : []
  })

describe.each(dialects)('%s', (dialect) => {
  test('a migration that fails leaves the database as it was, and the next start goes on from there', async () => {
    const sound = await newTestDatabase(dialect)
    const shapes: Shape[] = []
    for (let version = 0; version <= migrations.length; version++) {
      await (await sound.open({ targetVersion: version })).close()
      shapes.push(await shapeOf(dialect, sound))
    }
    sound.remove()
    expect(shapes.map((shape) => shape.version)).toEqual(shapes.map((_, version) => version))
    for (const count of failingAt(dialect)) {
      const testDatabase = await newTestDatabase(dialect)
      const old = Math.max(0, count - MISSING)
      await (await testDatabase.open({ targetVersion: old })).close()
      failAtMigration(count - old)
      await expect(testDatabase.open()).rejects.toMatchObject({ code: 'ERR_INIT_FAILED' })
      installFaultPlan(undefined)
      expect(await shapeOf(dialect, testDatabase)).toEqual(shapes[old])
      await (await testDatabase.open()).close()
      expect(await shapeOf(dialect, testDatabase)).toEqual(shapes.at(-1))
      testDatabase.remove()
    }
  })
})
