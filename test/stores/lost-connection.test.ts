import { afterEach, beforeEach, describe, expect, inject, it, vi } from 'vitest'
import type { Database } from '../../src/contract/database.ts'
import type { WriteTx } from '../../src/contract/tx.ts'
import { systemClock } from '../../src/kernel/clock.ts'
import { silentLogger } from '../../src/kernel/logger.ts'
import { openPostgresDatabase } from '../../src/stores/postgres/postgres-database.ts'
import { sqlLogStore as log } from '../../src/stores/sql/log-store.ts'
import { type CuttingProxy, startCuttingProxy } from '../support/cutting-proxy.ts'
import { createDatabase, withClient } from '../support/postgres.ts'
import { ACME, NOW } from '../support/sample-tasks.ts'

describe('a PostgreSQL store whose connection is lost', () => {
  let directUrl: string
  let proxy: CuttingProxy
  let database: Database

  beforeEach(async () => {
    directUrl = await createDatabase(inject('postgresUrl'))
    proxy = await startCuttingProxy(directUrl)
    database = await openPostgresDatabase({ url: proxy.url, clock: systemClock, logger: silentLogger })
    await append('first')
  })
  afterEach(async () => {
    await database.close()
    await proxy.close()
  })

  const appendIn = (tx: WriteTx, record: string) =>
    log.appendEntry(tx, ACME, { atMs: NOW, record, taskNumber: null, recordHash: null })
  const append = (record: string) => database.write(ACME, (tx) => appendIn(tx, record))
  const stored = () =>
    withClient(directUrl, async (client) =>
      (await client.query('SELECT record FROM log_entries ORDER BY seq')).rows.map((row) => row.record as string),
    )
  const endBackends = () =>
    withClient(directUrl, async (client) => {
      await client.query(
        'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()',
      )
    })

  /** The news that idle connections are gone may come after the next use of one, which then fails and changes nothing. */
  const untilNoticed = <T>(work: () => Promise<T>): Promise<T> => vi.waitFor(work, { timeout: 180_000 })

  it('acknowledges a commit that the server made although its answer was lost', async () => {
    proxy.cutAtCommit('after')
    await Promise.all([append('a'), append('b')])
    expect(await stored()).toEqual(['first', 'a', 'b'])
    await append('next')
    expect(await stored()).toEqual(['first', 'a', 'b', 'next'])
  })

  it('rejects a commit that never reached the server, and nothing of it remains', async () => {
    proxy.cutAtCommit('before')
    for (const outcome of await Promise.allSettled([append('a'), append('b')])) {
      expect(outcome).toMatchObject({ status: 'rejected', reason: { code: 'ERR_STORE_UNAVAILABLE', details: {} } })
    }
    expect(database.problem()).toBeDefined()
    await append('next')
    expect(await stored()).toEqual(['first', 'next'])
    expect(database.problem()).toBeUndefined()
  })

  it('says that the outcome is unknown when nobody can be asked', async () => {
    proxy.cutForGood('after')
    await expect(append('a')).rejects.toMatchObject({
      code: 'ERR_STORE_UNAVAILABLE',
      details: { outcome: 'unknown' },
    })
  })

  it('survives losing its connections between two statements, and goes on with new ones', async () => {
    const outcomes = await Promise.allSettled([
      append('a'),
      database.write(ACME, async (tx) => {
        await appendIn(tx, 'b')
        await endBackends()
        await appendIn(tx, 'c')
      }),
      append('d'),
    ])
    for (const outcome of outcomes) expect(outcome.status).toBe('rejected')
    expect(await stored()).toEqual(['first'])
    await untilNoticed(() => append('next'))
    expect(await stored()).toEqual(['first', 'next'])
  })

  it('survives losing its idle connections, and a snapshot that loses its own', async () => {
    const snapshot = database.snapshot(async (tx) => {
      await log.head(tx, ACME)
      await endBackends()
      return await log.head(tx, ACME)
    })
    await expect(snapshot).rejects.toThrow()
    expect((await untilNoticed(() => log.head(database.read, ACME))).size).toBe(1)
    await untilNoticed(() => append('next'))
    expect(await stored()).toEqual(['first', 'next'])
  })

  it('shows where it is without the password', async () => {
    const url = new URL(directUrl)
    url.password = 'geheim'
    const other = await openPostgresDatabase({ url: url.href, clock: systemClock, logger: silentLogger })
    expect(other.location).toBe(`postgres://${url.host}${url.pathname}`)
    await other.close()
  })
})
