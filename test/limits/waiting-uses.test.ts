import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Database } from '../../src/contract/database.ts'
import { tenantId } from '../../src/contract/principal.ts'
import type { UsageSubject } from '../../src/contract/usage-limits.ts'
import type { Limit } from '../../src/domains/limits/ports.ts'
import { createUsageLimits, type UsageAccounting } from '../../src/domains/limits/usage-limits.ts'
import { silentLogger } from '../../src/kernel/logger.ts'
import { sqlLimitStore as store } from '../../src/stores/sql/limit-store.ts'
import { movableClock } from '../support/app.ts'
import { dialects, openEmpty } from '../support/databases.ts'

/** Uses that wait for the store or for each other, while something else changes. */
const ACME = tenantId('acme')
const NOW = Date.UTC(2026, 3, 8, 22, 15, 30)
const DOLLAR = 1_000_000_000
const team: UsageSubject = { tenant: ACME, teams: ['t1'], profiles: [] }

const limitOf = (more: Partial<Limit> = {}): Limit => ({
  ...{ tenant: ACME, id: 'limit_1', entityType: 'team', entityId: 't1', limitType: 'token_cost', value: 1 },
  ...{ models: null, interval: 'calendar_day', server: null, tool: null, anchorMs: NOW, createdAtMs: NOW },
  createdBy: 'owner',
  ...more,
})

describe.each(dialects)('uses on %s', (dialect) => {
  let db: Database
  beforeEach(async () => {
    db = await openEmpty(dialect)
  })
  afterEach(() => db.close())

  const put = (limit: Limit) => db.write(ACME, (tx) => store.insertLimit(tx, ACME, limit))
  /** `written` is called when a write of the accounting is on disk, before the accounting knows it. */
  const open = (written: () => void = () => {}): UsageAccounting => {
    const write: Database['write'] = async (...args) => {
      const result = await db.write(...args)
      written()
      return result
    }
    return createUsageLimits({
      ...{ store, database: { read: db.read, flush: db.flush, write }, clock: movableClock(NOW) },
      ...{ logger: silentLogger, timeZone: 'UTC', failOpen: false, waitMs: 600_000 },
    })
  }
  /** Without anything new the limit is deleted. */
  const change = (limits: UsageAccounting, more?: Partial<Limit>) =>
    db.write(ACME, async (tx) => {
      if (more === undefined) await store.deleteLimit(tx, ACME, 'limit_1')
      else await store.saveLimit(tx, ACME, limitOf(more), more.interval !== undefined)
      limits.noteChange(ACME)
    })

  it('that are aborted while the store is asked wait for nothing', async () => {
    await put(limitOf())
    const leaving = new AbortController()
    let isLeaving = false
    const limits = open(() => {
      if (isLeaving) leaving.abort(new Error('gone'))
    })
    await limits.reserveCost(team, ['m'], () => DOLLAR)
    isLeaving = true
    const left = limits.reserveCost(
      team,
      ['m'],
      () => 1,
      () => leaving.signal,
    )
    await expect(left).rejects.toThrow('gone')
  })

  it('get every call that the store has left, even if others take it first', async () => {
    await put(limitOf({ limitType: 'mcp_server_calls', value: 200, server: { id: 's', name: 'S' } }))
    const call = { server: 's', tool: 'x' }
    const others: Promise<void>[] = []
    let made = 0
    /** Takes what there is in the very moment in which it is there. */
    async function overtake(): Promise<void> {
      for (let turn = 0; turn < 20; turn++) {
        let counted = limits.countCall(team, call)
        for (; !(counted instanceof Promise); counted = limits.countCall(team, call)) made++
        others.push(counted)
        await Promise.resolve()
      }
    }
    let overtaking: Promise<void> | undefined
    const limits = open(() => {
      overtaking ??= overtake()
    })
    await limits.countCall(team, call)
    await overtaking
    await Promise.all(others)
    expect(made).toBeGreaterThan(0)
  })

  it('return what they do not need, also if the value of the limit has changed meanwhile', async () => {
    await put(limitOf())
    const limits = open()
    const before = await limits.reserveCost(team, ['m'], () => 800_000_000)
    await change(limits, { value: 2 })
    const after = await limits.reserveCost(team, ['m'], () => 900_000_000)
    await change(limits, { value: 1.5 })
    before.settle(10_000_000)
    after.settle(20_000_000)
    const rest = await limits.reserveCost(team, ['m'], () => 1_470_000_000)
    rest.settle(0)
    await limits.giveBack('all')
    expect((await store.findLimit(db.read, ACME, 'limit_1'))!.used * 1_000).toBe(30_000_000)
  })

  it.each<[string, (limits: UsageAccounting) => Promise<void>]>([
    ['raised', (limits) => change(limits, { value: 2 })],
    ['given another interval', (limits) => change(limits, { interval: '1h' })],
    ['deleted', (limits) => change(limits)],
  ])('that wait go on at once when the limit is %s', async (_, changed) => {
    await put(limitOf())
    const limits = open()
    await limits.reserveCost(team, ['m'], () => DOLLAR)
    const waiting = limits.reserveCost(team, ['m'], () => DOLLAR)
    // It has found that nothing is left.
    await db.write(ACME, async () => {})
    await new Promise((resolve) => setImmediate(resolve))
    await changed(limits)
    await waiting
  })
})
