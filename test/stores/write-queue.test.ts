import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Database } from '../../src/contract/database.ts'
import { limits } from '../../src/contract/limits.ts'
import { installFaultPlan } from '../../src/kernel/fault.ts'
import { sqlLogStore as log } from '../../src/stores/sql/log-store.ts'
import { openEmpty } from '../support/databases.ts'
import { ACME, NOW } from '../support/sample-tasks.ts'

/** The queue in front of the commits is the same code for both stores; its limits are tried where writing is quick. */
describe('the queue of writes', () => {
  let database: Database
  beforeEach(async () => {
    database = await openEmpty('SQLite')
  })
  afterEach(async () => {
    installFaultPlan(undefined)
    await database.close()
  })

  const entry = (index: number) => ({ atMs: NOW, record: `r${index}`, taskNumber: null, recordHash: null })
  const append = (index: number) => database.write(ACME, (tx) => log.appendEntry(tx, ACME, entry(index)))
  const appendSoon = (index: number) => database.writeSoon(ACME, (tx) => log.appendEntry(tx, ACME, entry(index)))
  const times = <T>(count: number, make: (index: number) => T) =>
    Array.from({ length: count }, (_, index) => make(index))
  const size = async () => (await log.head(database.read, ACME)).size

  it('makes a caller wait once too many soon ones are pending, and loses none', async () => {
    const count = limits.readRecordsPendingMax
    const answers = times(count, appendSoon)
    expect(answers.findIndex((answer) => answer !== undefined)).toBe(count - 1)
    await answers.at(-1)
    await database.flush()
    expect(await size()).toBe(count)
  })

  it('commits no more soon ones at once than the limit, so that an answer never waits for all of them', async () => {
    let commits = 0
    installFaultPlan((point) => {
      if (point === 'store.commit.after') commits++
    })
    times(limits.readRecordsBatchMax * 3, appendSoon)
    await database.flush()
    expect(commits).toBe(3)
  })

  it('refuses writes beyond its end', async () => {
    const writes = times(limits.writeQueueMax + 1, append)
    await expect(writes.pop()).rejects.toMatchObject({ code: 'ERR_BUSY' })
    await Promise.all(writes)
    expect(await size()).toBe(limits.writeQueueMax)
  })
})
