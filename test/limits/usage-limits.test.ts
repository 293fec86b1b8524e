import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { AppError } from '../../src/contract/app-error.ts'
import type { Database } from '../../src/contract/database.ts'
import { tenantId } from '../../src/contract/principal.ts'
import type { CostReservation, UsageSubject } from '../../src/contract/usage-limits.ts'
import type { Limit } from '../../src/domains/limits/ports.ts'
import { createUsageLimits, type UsageLimitDeps } from '../../src/domains/limits/usage-limits.ts'
import { silentLogger } from '../../src/kernel/logger.ts'
import { sqlLimitStore as store } from '../../src/stores/sql/limit-store.ts'
import { movableClock } from '../support/app.ts'
import { dialects, openEmpty } from '../support/databases.ts'
import { seededRandom } from '../support/seeded-random.ts'

const ACME = tenantId('acme')
const NOW = Date.UTC(2026, 3, 8, 22, 15, 30)
const DOLLAR = 1_000_000_000
const team: UsageSubject = { tenant: ACME, user: 'u1', teams: ['t1'], profiles: ['agent1'] }

const limitOf = (more: Partial<Limit> = {}): Limit => ({
  tenant: ACME,
  id: 'limit_1',
  entityType: 'team',
  entityId: 't1',
  limitType: 'token_cost',
  value: 1,
  models: null,
  interval: 'calendar_day',
  server: null,
  tool: null,
  anchorMs: NOW,
  createdAtMs: NOW,
  createdBy: 'owner',
  ...more,
})

describe.each(dialects)('limits on %s', (dialect) => {
  let db: Database
  let clock: ReturnType<typeof movableClock>
  beforeEach(async () => {
    db = await openEmpty(dialect)
    clock = movableClock(NOW)
  })
  afterEach(() => db.close())

  const put = (...limits: readonly Limit[]) =>
    db.write(ACME, async (tx) => {
      for (const limit of limits) await store.insertLimit(tx, ACME, limit)
    })
  const storedOf = async (id: string): Promise<number> => (await store.findLimit(db.read, ACME, id))!.used
  /** Millionths of a dollar are stored. */
  const usedOf = async (id = 'limit_1'): Promise<number> => (await storedOf(id)) * 1_000
  const rounded = (spent: number): number => Math.ceil(spent / 1_000) * 1_000
  const open = (more: Partial<UsageLimitDeps> = {}) =>
    createUsageLimits({
      ...{ store, database: db, clock, logger: silentLogger, timeZone: 'UTC', failOpen: false, waitMs: 0 },
      ...more,
    })
  const refusalOf = async (work: CostReservation | Promise<CostReservation>): Promise<AppError> => {
    const error = await Promise.resolve(work).then(
      () => undefined,
      (reason: unknown) => reason,
    )
    if (error instanceof AppError) return error
    throw new Error(`it was not refused: ${String(error)}`)
  }

  /** A limit is reached only by what is spent. What others have reserved comes back. */
  function checkRefusal(
    error: unknown,
    { spent, needed, limit, seed }: Readonly<{ spent: number; needed: number; limit: number; seed: number }>,
  ): void {
    if (!(error instanceof AppError)) throw error
    const { code, details } = error
    expect(['ERR_LIMIT_EXCEEDED', 'ERR_RATE_LIMITED'], `seed ${seed}`).toContain(code)
    expect(Math.round(Number(details['current_usage']) * DOLLAR), `seed ${seed}`).toBeLessThanOrEqual(spent)
    if (code === 'ERR_LIMIT_EXCEEDED') expect(spent + needed, `seed ${seed}`).toBeGreaterThan(limit)
    else expect(details, `seed ${seed}`).toMatchObject({ reserved: expect.any(Number), retry_after_ms: 1_000 })
  }

  it('are never exceeded by any number of callers at once, and lose nothing when all have settled', async () => {
    const { seed, below } = seededRandom()
    await put(limitOf(), limitOf({ id: 'limit_2', entityType: 'user', entityId: 'u1', value: 0.7 }))
    const limits = open()
    let reserved = 0
    let spent = 0
    let refused = 0
    const oneCaller = async (): Promise<void> => {
      for (let call = 0; call < 8; call++) {
        const most = 1_000_000 + below(20_000_000)
        try {
          const reservation = await limits.reserveCost(team, ['m'], () => most)
          reserved += most
          expect(spent + reserved, `seed ${seed}`).toBeLessThanOrEqual(0.7 * DOLLAR)
          // Others go on in between.
          await new Promise((resolve) => setImmediate(resolve))
          const cost = below(most + 1)
          reservation.settle(cost)
          reservation.settle(most)
          reserved -= most
          spent += cost
        } catch (error) {
          checkRefusal(error, { spent, needed: most, limit: 0.7 * DOLLAR, seed })
          refused += 1
        }
      }
    }
    await Promise.all(Array.from({ length: 50 }, oneCaller))
    expect(refused, `seed ${seed}`).toBeGreaterThan(0)
    await limits.giveBack('all')
    expect([await usedOf('limit_1'), await usedOf('limit_2')], `seed ${seed}`).toEqual([rounded(spent), rounded(spent)])
  })

  it('are exceeded by one caller at most, and by no more than one use may cost, if nobody knows in advance what uses cost', async () => {
    const { seed, below } = seededRandom()
    await put(limitOf(), limitOf({ id: 'limit_2', entityType: 'user', entityId: 'u1', value: 0.7 }))
    const limits = open({ waitMs: 60_000 })
    const [LEAST, MOST] = [1_000_000, 30_000_000]
    let spent = 0
    let refused = 0
    const oneCaller = async (): Promise<void> => {
      for (let call = 0; call < 8; call++) {
        // Some say how much they use at most.
        const most = below(3) === 0 ? LEAST : MOST
        try {
          const reservation = await limits.reserveCost(team, ['m'], () => ({ least: LEAST, most }))
          await new Promise((resolve) => setImmediate(resolve))
          const cost = below(2) === 0 ? most : below(most + 1)
          reservation.settle(cost)
          reservation.settle(most)
          spent += cost
        } catch (error) {
          checkRefusal(error, { spent, needed: LEAST, limit: 0.7 * DOLLAR, seed })
          refused += 1
        }
      }
    }
    await Promise.all(Array.from({ length: 50 }, oneCaller))
    expect(refused, `seed ${seed}`).toBeGreaterThan(0)
    expect(spent, `seed ${seed}`).toBeLessThanOrEqual(0.7 * DOLLAR + MOST - LEAST)
    expect(spent, `seed ${seed}`).toBeGreaterThan(0.7 * DOLLAR - LEAST)
    await limits.giveBack('all')
    await db.flush()
    const all = [rounded(spent), rounded(spent)]
    await expect.poll(async () => [await usedOf('limit_1'), await usedOf('limit_2')]).toEqual(all)
  })

  it('leave the rest to one use that may cost more, and others wait for it', async () => {
    await put(limitOf())
    const limits = open({ waitMs: 60_000 })
    const fixed = await limits.reserveCost(team, ['m'], () => 300_000_000)
    const first = await limits.reserveCost(team, ['m'], () => ({ least: 1_000_000, most: 2 * DOLLAR }))
    let isReserved = false
    const second = Promise.resolve(
      limits.reserveCost(team, ['m'], () => ({ least: 1_000_000, most: 2 * DOLLAR })),
    ).then((reservation) => {
      isReserved = true
      return reservation
    })
    // It has found that nothing is left.
    await db.write(ACME, async () => {})
    await new Promise((resolve) => setImmediate(resolve))
    // What is returned now is enough for it, but both together could exceed the limit twice.
    fixed.settle(0)
    await db.write(ACME, async () => {})
    await new Promise((resolve) => setImmediate(resolve))
    expect(isReserved).toBe(false)
    const bounded = await limits.reserveCost(team, ['m'], () => 300_000_000)
    bounded.settle(0)
    first.settle(400_000_000)
    ;(await second).settle(600_000_000)
    await limits.giveBack('all')
    await expect.poll(() => usedOf()).toBe(DOLLAR)
    const refusal = await refusalOf(open().reserveCost(team, ['m'], () => ({ least: 1_000_000, most: DOLLAR })))
    expect(refusal.code).toBe('ERR_LIMIT_EXCEEDED')
    expect(refusal.message).toContain('max_tokens')
  })

  it('that requests in progress have reserved, and not spent, are not reached: it is soon worth another try', async () => {
    await put(limitOf(), limitOf({ id: 'limit_2', entityType: 'user', entityId: 'u1', value: 20 }))
    const limits = open()
    const settled = await limits.reserveCost(team, ['m'], () => 1_000_000)
    settled.settle(1_000_000)
    const long = await limits.reserveCost(team, ['m'], () => ({ least: 4_000_000, most: 5 * DOLLAR }))
    const again = () => limits.reserveCost(team, ['m'], () => ({ least: 4_000_000, most: 5 * DOLLAR }))
    const occupied = await refusalOf(again())
    expect(occupied).toMatchObject({
      code: 'ERR_RATE_LIMITED',
      message: expect.stringMatching(/is not reached.* 0\.001 are used and 0\.999 are reserved.*Set max_tokens/),
      details: { limit_id: 'limit_1', current_usage: 0.001, reserved: 0.999, remaining: 0, retry_after_ms: 1_000 },
    })
    // No settling makes room for more than the limit.
    expect((await refusalOf(limits.reserveCost(team, ['m'], () => DOLLAR))).code).toBe('ERR_LIMIT_EXCEEDED')
    long.settle(10_000_000)
    ;(await again()).settle(990_000_000)
    const reached = await refusalOf(again())
    expect(reached).toMatchObject({ code: 'ERR_LIMIT_EXCEEDED', details: { reserved: 0, remaining: 0 } })
  })

  it('add up uses that cost less than a millionth of a dollar', async () => {
    await put(limitOf({ value: 0.00005 }))
    const limits = open()
    const usedNow = async () => limits.statusOf((await store.findLimit(db.read, ACME, 'limit_1'))!, NOW).used
    for (let use = 1; use <= 500; use++) {
      const reservation = await limits.reserveCost(team, ['m'], () => 100)
      // Some cost more than they reserved, and others less.
      reservation.settle(use % 2 === 0 ? 150 : 50)
      if (use % 100 === 0) await limits.giveBack('all')
    }
    await db.flush()
    await expect.poll(usedNow).toBe(50_000)
    expect(await storedOf('limit_1')).toBe(50)
    expect((await refusalOf(limits.reserveCost(team, ['m'], () => 1))).details).toMatchObject({
      current_usage: 0.00005,
    })
  })

  it('are shared by several processes, and are not larger after one of them died', async () => {
    await put(limitOf({ limitType: 'mcp_server_calls', value: 200, server: { id: 's', name: 'S' } }))
    const processes = [open(), open(), open()]
    const call = { server: 's', tool: 'x' }
    let made = 0
    const tryAll = async (count: number): Promise<void> => {
      const outcomes = processes.flatMap((limits) =>
        Array.from({ length: count }, async () => await limits.countCall(team, call)),
      )
      for (const outcome of await Promise.allSettled(outcomes)) if (outcome.status === 'fulfilled') made += 1
    }
    await tryAll(20)
    expect(made).toBe(60)
    // Two of them end without giving anything back.
    processes.splice(1, 2, open())
    await tryAll(200)
    expect(made).toBeLessThanOrEqual(200)
    expect(made).toBeGreaterThanOrEqual(200 - 2 * 4)
    expect(await storedOf('limit_1')).toBe(200)
  })

  it('count what a use cost beyond what was reserved, so that the next is refused', async () => {
    await put(limitOf())
    const limits = open()
    const reservation = await limits.reserveCost(team, ['m'], () => 900_000_000)
    reservation.settle(1_300_000_000)
    await db.flush()
    await expect.poll(() => usedOf()).toBe(1_300_000_000)
    expect((await refusalOf(limits.reserveCost(team, ['m'], () => 1))).details).toMatchObject({
      limit_id: 'limit_1',
      limit_type: 'token_cost',
      entity_type: 'team',
      entity_id: 't1',
      limit_value: 1,
      current_usage: 1.3,
      remaining: 0,
      resets_at: '2026-04-09T00:00:00.000Z',
    })
  })

  it('begin anew with each period, also for what is settled after it', async () => {
    await put(limitOf())
    const limits = open()
    const late = await limits.reserveCost(team, ['m'], () => DOLLAR)
    expect((await refusalOf(limits.reserveCost(team, ['m'], () => 1))).code).toBe('ERR_RATE_LIMITED')
    clock.advance(2 * 3_600_000)
    const today = await limits.reserveCost(team, ['m'], () => 600_000_000)
    late.settle(2 * DOLLAR)
    today.settle(600_000_000)
    await limits.giveBack('all')
    expect(await usedOf()).toBe(600_000_000)
    const rest = await limits.reserveCost(team, ['m'], () => 400_000_000)
    rest.settle(400_000_000)
    expect((await refusalOf(limits.reserveCost(team, ['m'], () => 1))).code).toBe('ERR_LIMIT_EXCEEDED')
  })

  it('bind only the models, servers and tools that they name, and only whom they name', async () => {
    await put(
      limitOf({ models: ['big'], value: 0 }),
      limitOf({
        id: 'limit_2',
        limitType: 'tool_calls',
        value: 0,
        server: { id: 's', name: 'S' },
        tool: { id: 't', name: 'T' },
      }),
    )
    const limits = open()
    const another: UsageSubject = { tenant: ACME, user: 'u2', teams: ['t2'], profiles: [] }
    expect((await refusalOf(limits.reserveCost(team, ['big'], () => 1))).code).toBe('ERR_LIMIT_EXCEEDED')
    await limits.reserveCost(team, ['small'], () => 1)
    await limits.reserveCost(another, ['big'], () => 1)
    await limits.reserveCost({ ...team, tenant: tenantId('other') }, ['big'], () => 1)
    const count = async (tool: string, subject = team) => await limits.countCall(subject, { server: 's', tool })
    await expect(count('t')).rejects.toThrow('tool_calls limit of the team')
    await count('other')
    await count('t', another)
  })

  it('count the model that answered, whatever was requested', async () => {
    await put(limitOf({ models: ['big'], value: 0.01 }), limitOf({ id: 'limit_2' }))
    const limits = open()
    const reservation = await limits.reserveCost(team, ['alias'], () => 9_000_000)
    reservation.settle(8_000_000, 'big')
    await limits.giveBack('all')
    await expect.poll(async () => [await usedOf('limit_1'), await usedOf('limit_2')]).toEqual([8_000_000, 8_000_000])
    // Who knows that the alias is the big model says so in advance.
    expect((await refusalOf(limits.reserveCost(team, ['alias', 'big'], () => 9_000_000))).details).toMatchObject({
      limit_id: 'limit_1',
      remaining: 0.002,
    })
    const unlimited = await limits.reserveCost({ tenant: ACME, teams: [], profiles: [] }, ['alias'], () => 1)
    unlimited.settle(5_000_000, 'big')
    await limits.giveBack('all')
    expect([await usedOf('limit_1'), await usedOf('limit_2')]).toEqual([8_000_000, 8_000_000])
  })

  it('ask for an amount only where they apply, and pass on why there is none', async () => {
    await put(limitOf({ models: ['big'] }))
    const limits = open({ failOpen: true })
    const unknown = (): number => {
      throw new AppError('ERR_INVALID_INPUT', 'The price is not known, for the test.')
    }
    await limits.reserveCost(team, ['small'], unknown)
    const refused = async () => await limits.reserveCost(team, ['big'], unknown)
    await expect(refused()).rejects.toThrow('not known')
  })

  it('let a request wait for what others have reserved, until it fits, is aborted, or has waited enough', async () => {
    await put(limitOf())
    const limits = open({ waitMs: 60_000 })
    const first = await limits.reserveCost(team, ['m'], () => 900_000_000)
    const second = Promise.resolve(limits.reserveCost(team, ['m'], () => 500_000_000))
    const leaving = new AbortController()
    const third = Promise.resolve(
      limits.reserveCost(
        team,
        ['m'],
        () => 500_000_000,
        () => leaving.signal,
      ),
    )
    leaving.abort(new Error('gone'))
    await expect(third).rejects.toThrow('gone')
    first.settle(100_000_000)
    const reservation = await second
    reservation.settle(500_000_000)
    // No settling can make room for this one, so that it is refused at once.
    expect((await refusalOf(limits.reserveCost(team, ['m'], () => 500_000_000))).code).toBe('ERR_LIMIT_EXCEEDED')
    await limits.reserveCost(team, ['m'], () => 400_000_000)
    expect((await refusalOf(open().reserveCost(team, ['m'], () => 1))).code).toBe('ERR_LIMIT_EXCEEDED')
  })

  it('refuse a use while the store fails, or let it through if they are told to', async () => {
    await put(limitOf())
    const write: Database['write'] = () =>
      Promise.reject(new AppError('ERR_STORE_UNAVAILABLE', 'The store failed, for the test.'))
    const failing = { read: db.read, flush: db.flush, write }
    expect((await refusalOf(open({ database: failing }).reserveCost(team, ['m'], () => 1))).code).toBe(
      'ERR_STORE_UNAVAILABLE',
    )
    await open({ database: failing, failOpen: true }).reserveCost(team, ['m'], () => 1)
  })

  it('hold as they are after a change, for the calls that follow', async () => {
    await put(limitOf())
    const limits = open()
    await limits.reserveCost(team, ['m'], () => 10_000_000)
    await db.write(ACME, async (tx) => {
      await store.saveLimit(tx, ACME, limitOf({ value: 0.01 }), false)
      limits.noteChange(ACME)
    })
    expect((await refusalOf(limits.reserveCost(team, ['m'], () => 1))).details).toMatchObject({ limit_value: 0.01 })
    await db.write(ACME, async (tx) => {
      await store.deleteLimit(tx, ACME, 'limit_1')
      limits.noteChange(ACME)
    })
    await limits.reserveCost(team, ['m'], () => 100 * DOLLAR)
  })
})
