import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { AppError } from '../../src/contract/app-error.ts'
import type { Database } from '../../src/contract/database.ts'
import { limits } from '../../src/contract/limits.ts'
import { lastWrittenFirst } from '../../src/contract/list-page.ts'
import { LOCAL_TENANT } from '../../src/contract/principal.ts'
import { createSignInGuard } from '../../src/domains/people/sign-in.ts'
import { sqlPeopleLists } from '../../src/stores/sql/people-lists.ts'
import { sqlPeopleStore as store } from '../../src/stores/sql/people-store.ts'
import { dialects, openEmpty } from '../support/databases.ts'

const NOW_MS = Date.UTC(2026, 10, 17)
const slowed = { code: 'ERR_RATE_LIMITED' }

/** Guesses of a password, by a caller that knows how they are counted. */
describe.each(dialects)('guesses in %s', (dialect) => {
  let database: Database
  beforeEach(async () => {
    database = await openEmpty(dialect)
  })
  afterEach(() => database.close())

  const attempt = (nowMs: number, more: object = {}) => ({
    email: 'ada@example.com',
    address: '203.0.113.9',
    nowMs,
    ...more,
  })

  async function fail(guard: ReturnType<typeof createSignInGuard>, one: ReturnType<typeof attempt>): Promise<void> {
    const release = await guard.admit(one)
    await guard.note(one, 'refused')
    release()
  }

  test('are not forgotten behind those that were turned away', async () => {
    const guard = createSignInGuard({ store, database })
    for (let count = 0; count < limits.signInFreeFailures + 1; count++) {
      await fail(guard, attempt(NOW_MS + count * limits.signInWaitMs))
    }
    const nowMs = NOW_MS + limits.signInFreeFailures * limits.signInWaitMs + 1
    for (let count = 0; count < 120; count++) {
      await expect(guard.admit(attempt(nowMs + count))).rejects.toMatchObject(slowed)
    }
    const rows = await sqlPeopleLists.attempts(database.read, LOCAL_TENANT, {}).rows(lastWrittenFirst.first, 1_000)
    expect(rows.filter(({ outcome }) => outcome === 'slowed').length).toBeLessThan(5)
  })

  test('are counted while they are made, for the e-mail address and for where they come from', async () => {
    const guard = createSignInGuard({ store, database })
    const all = Array.from({ length: 40 }, (_, index) => guard.admit(attempt(NOW_MS + index)))
    const admitted = (await Promise.allSettled(all)).filter(({ status }) => status === 'fulfilled')
    expect(admitted.length).toBe(limits.signInFreeFailures)
    const release = await guard.admit(attempt(NOW_MS, { email: 'bob@example.com' }))
    release()
    const spread = Array.from({ length: limits.signInFailuresPerAddressMax * 2 }, (_, index) =>
      guard.admit(attempt(NOW_MS, { email: `user${index}@example.com`, address: '203.0.113.10' })),
    )
    const kept = (await Promise.allSettled(spread)).filter(({ status }) => status === 'fulfilled')
    expect(kept.length).toBeLessThanOrEqual(limits.signInsAtOnceMax)
  })

  test('are told how long to wait', async () => {
    const guard = createSignInGuard({ store, database })
    const messages: string[] = []
    for (let count = 0; count < limits.signInFreeFailures + 8; count++) {
      const nowMs = NOW_MS + count
      await fail(guard, attempt(nowMs)).catch(async (error: AppError) => {
        messages.push(`${error.message} ${error.details['retry_after_ms']}`)
        await guard.note(attempt(nowMs), 'refused')
      })
    }
    expect(messages.length).toBeGreaterThan(4)
    for (const message of messages) {
      const [, count, unit, ms] = /Try again in (\d+) (second|minute)s?\. (\d+)$/.exec(message) ?? expect.fail(message)
      const unitMs = unit === 'second' ? 1_000 : 60_000
      expect([message, Number(count)]).toEqual([message, Math.ceil(Number(ms) / unitMs)])
    }
  })

  test('from one network of IPv6 count together, and from another do not', async () => {
    const guard = createSignInGuard({ store, database })
    for (let count = 0; count < limits.signInFailuresPerAddressMax; count++) {
      const from = { email: `user${count}@example.com`, address: `2001:db8:1:2:${count.toString(16)}::1` }
      await fail(guard, attempt(NOW_MS, from))
    }
    const guess = (address: string) => guard.admit(attempt(NOW_MS, { email: 'new@example.com', address }))
    await expect(guess('2001:db8:1:2:ffff::2')).rejects.toMatchObject(slowed)
    for (const address of ['2001:db8:1:3::1', '203.0.113.9']) (await guess(address))()
  })

  test('that waited are made one at a time', async () => {
    const guard = createSignInGuard({ store, database })
    for (let count = 0; count < limits.signInFreeFailures; count++) await fail(guard, attempt(NOW_MS + count))
    const laterMs = NOW_MS + limits.signInWaitMsMax
    const both = [guard.admit(attempt(laterMs)), guard.admit(attempt(laterMs))]
    expect((await Promise.allSettled(both)).map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected'])
  })
})
