import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Database } from '../../src/contract/database.ts'
import { localOwner } from '../../src/contract/principal.ts'
import { createStoreMemo } from '../../src/contract/store-memo.ts'
import { sqlLogStore } from '../../src/stores/sql/log-store.ts'
import { sharedTeams } from '../../src/stores/sql/sharing.ts'
import { openEmpty } from '../support/databases.ts'
import { ACME, NOW } from '../support/sample-tasks.ts'

/** What is kept of the store between two requests, so that nobody is judged by rights that are gone. */
describe('what is kept of the embedded store', () => {
  let database: Database
  beforeEach(async () => {
    database = await openEmpty('SQLite')
  })
  afterEach(() => database.close())

  const share = (...teams: string[]) =>
    database.write(ACME, (tx) => sharedTeams.replace(tx, ACME, 'profile', 'p', teams))
  const record = (count: number) =>
    Promise.all(
      Array.from({ length: count }, () =>
        database.write(ACME, (tx) =>
          sqlLogStore.appendEntry(tx, ACME, { atMs: NOW, record: '{}', taskNumber: 1, recordHash: 'h' }),
        ),
      ),
    )
  const teams = () => sharedTeams.of(database.read, ACME, 'profile', 'p')

  it('stays while only the log grows', async () => {
    await record(1)
    const before = database.dataVersion()
    // So many that they are entered into the index of the log too.
    await record(600)
    expect(database.dataVersion()).toBe(before)
  })

  it('is asked for again after every other commit', async () => {
    const memo = createStoreMemo<readonly string[]>(database)
    const ask = () => memo(localOwner, 'p', teams)
    expect(await ask()).toEqual([])
    expect(ask()).toEqual([])
    await share('one')
    expect(await ask()).toEqual(['one'])
    await Promise.all([record(1), share('two'), record(1)])
    expect(await ask()).toEqual(['two'])
    expect(ask()).toEqual(['two'])
    await share()
    expect(await ask()).toEqual([])
  })

  it('is another for each principal', async () => {
    const memo = createStoreMemo<string>(database)
    expect(await memo(localOwner, 'p', async () => 'mine')).toBe('mine')
    expect(await memo({ ...localOwner }, 'p', async () => 'yours')).toBe('yours')
    expect(memo(localOwner, 'p', async () => 'new')).toBe('mine')
  })

  it('has nothing that was read while the store changed, and no failure', async () => {
    const memo = createStoreMemo<string>(database)
    await memo(localOwner, 'p', async () => {
      await share('one')
      return 'half'
    })
    expect(await memo(localOwner, 'p', async () => 'whole')).toBe('whole')
    await expect(memo(localOwner, 'q', () => Promise.reject(new Error('no')))).rejects.toThrow('no')
    expect(await memo(localOwner, 'q', async () => 'there')).toBe('there')
  })

  it('is nothing where other processes write too', async () => {
    const memo = createStoreMemo<string>({ dataVersion: () => undefined })
    expect(await memo(localOwner, 'p', async () => 'old')).toBe('old')
    expect(await memo(localOwner, 'p', async () => 'new')).toBe('new')
  })
})

describe('PostgreSQL', () => {
  it('does not say when its data changed', async () => {
    const database = await openEmpty('PostgreSQL')
    try {
      expect(database.dataVersion()).toBeUndefined()
    } finally {
      await database.close()
    }
  })
})
