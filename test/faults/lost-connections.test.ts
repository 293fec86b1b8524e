import { setTimeout as delay } from 'node:timers/promises'
import { expect, inject, test } from 'vitest'
import { openTestApp, type TestApp } from '../support/app.ts'
import type { Outcome } from '../support/castellan-client.ts'
import { isLongRun } from '../support/long-run.ts'
import { createDatabase, withClient } from '../support/postgres.ts'
import { seededRandom } from '../support/seeded-random.ts'
import { findingsOf, gapsIn, readStateOf } from '../support/stored-state.ts'
import { disagreements, load, newBooks, type Target } from './load.ts'

const CUTS = isLongRun ? 100 : 10
const LANES = 16

const targetOf = (app: TestApp): Target => ({
  async call(tool, args): Promise<Outcome> {
    const { json, failure } = await app.call(tool, args)
    if (failure === undefined) return { kind: 'done', answer: JSON.parse(json) as Record<string, unknown> }
    const { code, message, details } = failure
    return { kind: 'failed', code, message, isUnknown: details['outcome'] === 'unknown' }
  },
})

/** Ends the program's connections from the server's side, in whatever they are doing. */
const cutConnections = (url: string): Promise<unknown> =>
  withClient(url, (client) =>
    client.query(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
       WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'`,
    ),
  )

test('connections to PostgreSQL that are cut under load lose nothing acknowledged and double nothing', async () => {
  const random = seededRandom()
  console.info(`seed ${random.seed}`)
  const url = await createDatabase(inject('postgresUrl'))
  await using app = await openTestApp({ config: { database_url: url } })
  const books = newBooks('ERR_STORE_UNAVAILABLE')
  let isStopped = false
  const working = load(targetOf(app), books, random, { lanes: LANES, isStopped: () => isStopped })
  for (let cut = 0; cut < CUTS; cut++) {
    const before = books.acknowledged.size
    await expect.poll(() => books.acknowledged.size, { interval: 1 }).toBeGreaterThan(before + 20)
    await delay(random.below(20))
    await cutConnections(url)
  }
  isStopped = true
  await working
  expect(disagreements(await readStateOf(app), books)).toEqual([])
  expect(gapsIn(await readStateOf(app))).toEqual([])
  expect(await findingsOf(app)).toEqual([])
  const { acknowledged, unknown, undone } = books
  expect(undone.size).toBeGreaterThan(0)
  console.info(`${acknowledged.size} acknowledged, ${unknown.size} unknown, ${undone.size} not done`)
})
