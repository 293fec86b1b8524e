import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Database } from '../../src/contract/database.ts'
import { LOCAL_TENANT, tenantId } from '../../src/contract/principal.ts'
import { sqlClockFloor } from '../../src/stores/sql/clock-floor.ts'
import { sqlAnchors } from '../../src/stores/sql/log-anchors.ts'
import { dialects, newTestDatabase, type TestDatabase } from '../support/databases.ts'

describe.each(dialects)('in %s', (dialect) => {
  let testDatabase: TestDatabase
  let database: Database
  beforeEach(async () => {
    testDatabase = await newTestDatabase(dialect)
    database = await testDatabase.open()
  })
  afterEach(async () => {
    await database.close()
    testDatabase.remove()
  })

  it('the first checkpoint of a tenant is known for each node by itself', async () => {
    const [here, there] = [sqlAnchors(database, 'here'), sqlAnchors(database, 'there')]
    expect(await here.find(LOCAL_TENANT)).toBeUndefined()
    await here.note(LOCAL_TENANT, 7)
    await here.note(LOCAL_TENANT, 9)
    expect(await here.find(LOCAL_TENANT)).toBe(7)
    expect(await there.find(LOCAL_TENANT)).toBeUndefined()
    expect(await here.find(tenantId('other'))).toBeUndefined()
  })

  it('the latest time is only raised, unless it is reset', async () => {
    const write = (step: 'raise' | 'reset', atMs: number) =>
      database.write(LOCAL_TENANT, (tx) => sqlClockFloor[step](tx, atMs))
    expect(await sqlClockFloor.find(database.read)).toBeUndefined()
    for (const atMs of [1_700_000_000_000, 1_800_000_000_000, 1_750_000_000_000]) await write('raise', atMs)
    expect(await sqlClockFloor.find(database.read)).toBe(1_800_000_000_000)
    await write('reset', 1_700_000_000_000)
    expect(await sqlClockFloor.find(database.read)).toBe(1_700_000_000_000)
  })
})
