import { afterEach, describe, expect, onTestFinished, test } from 'vitest'
import { AppError } from '../../src/contract/app-error.ts'
import type { Database } from '../../src/contract/database.ts'
import { isoTime } from '../../src/kernel/clock.ts'
import { type FaultPoint, installFaultPlan } from '../../src/kernel/fault.ts'
import { movableClock } from '../support/app.ts'
import { type DialectName, dialects, newTestDatabase, openEmpty } from '../support/databases.ts'
import { openServer, type TestServer } from '../support/schedules.ts'

const hourly = { type: 'interval', everyMs: 3_600_000 } as const
const HOUR = 3_600_000

afterEach(() => installFaultPlan(undefined))

describe.each(dialects)('over %s', (dialect) => {
  async function open(deps: Parameters<typeof openServer>[2] = {}) {
    const database = await openEmpty(dialect)
    const clock = movableClock()
    const server = openServer(database, clock, deps)
    onTestFinished(async () => {
      await server.close()
      await database.close()
    })
    await server.scheduler.begin()
    const goOn = async (ms: number) => {
      clock.advance(ms)
      await server.scheduler.reconcile()
    }
    /** Lets the last run end. */
    const release = async () => {
      const { id } = (await server.runs()).at(-1)!
      const { waitingFor } = await server.engine.until(id, (run) => run.waitingFor !== null)
      await server.engine.call((call) => server.engine.signal(call, id, null, waitingFor!))
      await server.engine.end(id)
    }
    return { ...server, database, clock, goOn, release }
  }

  test('an execution starts when its time has come, and again at the next', async () => {
    const { set, goOn, release, runs, reasons, clock } = await open()
    await set(hourly)
    const startedMs = clock.nowMs()
    await goOn(HOUR - 1)
    expect(await runs()).toEqual([])
    await goOn(1)
    await release()
    await goOn(HOUR)
    expect(await runs()).toHaveLength(2)
    expect(await reasons()).toEqual([
      { due_at: isoTime(startedMs + HOUR), missed: 0, skipped: 0 },
      { due_at: isoTime(startedMs + 2 * HOUR), missed: 0, skipped: 0 },
    ])
  })

  test('while the last execution is not over, times are skipped and told with the next', async () => {
    const { set, goOn, release, runs, reasons } = await open()
    await set(hourly)
    await goOn(HOUR)
    await goOn(HOUR)
    await goOn(HOUR)
    expect(await runs()).toHaveLength(1)
    await release()
    await goOn(HOUR)
    expect((await reasons()).at(-1)).toMatchObject({ missed: 0, skipped: 2 })
  })

  test('overlap queue starts one as soon as the last is over; allow does not look at it', async () => {
    const { set, goOn, release, runs, find } = await open()
    await set({ ...hourly, overlap: 'queue' })
    await goOn(HOUR)
    await goOn(HOUR)
    expect(await runs()).toHaveLength(1)
    await release()
    await expect.poll(runs).toHaveLength(2)
    await set({ ...hourly, overlap: 'allow' })
    await goOn(HOUR)
    await goOn(HOUR)
    expect(await runs()).toHaveLength(4)
    expect((await find())!.nextAtMs).toBeGreaterThan(0)
  })

  test('what came while no server was there is made up for by one execution, or by none', async () => {
    const once = await open()
    await once.set(hourly)
    const startedMs = once.clock.nowMs()
    await once.goOn(5.5 * HOUR)
    expect(await once.reasons()).toEqual([{ due_at: isoTime(startedMs + 5 * HOUR), missed: 4, skipped: 0 }])
    expect((await once.find())!.nextAtMs).toBe(startedMs + 6 * HOUR)
    const none = await open()
    await none.set({ ...hourly, missed: 'skip' })
    await none.goOn(5.5 * HOUR)
    expect(await none.runs()).toEqual([])
    await none.goOn(0.5 * HOUR)
    expect(await none.reasons()).toMatchObject([{ missed: 5, skipped: 0 }])
  })

  test('deploying again keeps the beat, another timing begins anew, and without one it is over', async () => {
    const { set, remove, find, clock, goOn, runs } = await open()
    await set(hourly)
    const { nextAtMs } = (await find())!
    clock.advance(HOUR / 2)
    await set({ ...hourly, overlap: 'allow' })
    expect(await find()).toMatchObject({ nextAtMs, timing: { overlap: 'allow' } })
    await set({ type: 'interval', everyMs: HOUR * 2 })
    expect((await find())!.nextAtMs).toBe(clock.nowMs() + HOUR * 2)
    await set({ ...hourly, enabled: false })
    expect(await find()).toBeUndefined()
    await set(hourly)
    await remove()
    await goOn(HOUR * 3)
    expect(await runs()).toEqual([])
  })

  test('what cannot be started waits for its next time; a schedule without agent or owner goes', async () => {
    let refusal: AppError | undefined = new AppError('ERR_INVALID_INPUT', 'input: wrong')
    let isRevoked = false
    const started: unknown[] = []
    const server = await open({
      deps: {
        owners: { isRevoked: async () => isRevoked },
        async start(_, __, reason) {
          if (refusal !== undefined) throw refusal
          started.push(reason)
          return undefined
        },
      },
    })
    await server.set(hourly)
    await server.goOn(HOUR)
    expect(await server.find()).toMatchObject({ missed: 1, nextAtMs: server.clock.nowMs() + HOUR })
    refusal = undefined
    await server.goOn(HOUR)
    expect(started).toMatchObject([{ schedule: { missed: 1 } }])
    isRevoked = true
    await server.goOn(HOUR)
    expect(await server.find()).toBeUndefined()
    isRevoked = false
    await server.set(hourly)
    refusal = new AppError('ERR_AGENT_NOT_FOUND', 'gone')
    await server.goOn(HOUR)
    expect(await server.find()).toBeUndefined()
  })

  test('wherever it fails between due and started, the next server starts it once', async () => {
    const reached = new Set<FaultPoint>()
    for (let count = 1; ; count++) {
      const point = await failAt(dialect, count)
      if (point === undefined) break
      reached.add(point)
    }
    expect([...reached]).toEqual(
      expect.arrayContaining(['schedule.due', 'store.write', 'store.commit.before', 'store.commit.after']),
    )
  })
})

/** A server that fails at every step from the `count`-th on, then another. Answers where, if there were so many. */
async function failAt(dialect: DialectName, count: number): Promise<FaultPoint | undefined> {
  const testDatabase = await newTestDatabase(dialect)
  const clock = movableClock()
  const opened: Database[] = []
  const open = async (bootId: string): Promise<TestServer> => {
    const database = await testDatabase.open()
    opened.push(database)
    return openServer(database, clock, { bootId })
  }
  const first = await open('boot-1')
  await first.scheduler.begin()
  await first.set({ type: 'interval', everyMs: HOUR })
  await first.scheduler.reconcile()
  clock.advance(HOUR)
  let point: FaultPoint | undefined
  let seen = 0
  installFaultPlan((at) => {
    // What the run itself does is not the schedule's.
    if (at.startsWith('run.') || ++seen < count) return
    point ??= at
    throw new Error(`planned at ${at}`)
  })
  await first.scheduler.reconcile()
  installFaultPlan(undefined)
  await first.close()
  const second = await open('boot-2')
  await second.scheduler.begin()
  expect(await second.runs(), `failed at step ${count}, ${point}`).toHaveLength(1)
  expect((await second.find())!.nextAtMs).toBe(clock.nowMs() + HOUR)
  await second.close()
  for (const database of opened) await database.close()
  testDatabase.remove()
  return point
}

test('two servers on one PostgreSQL start each execution once', async () => {
  const testDatabase = await newTestDatabase('PostgreSQL')
  const clock = movableClock()
  const databases = [await testDatabase.open(), await testDatabase.open()]
  const servers = databases.map((database, index) => openServer(database, clock, { bootId: `boot-${index}` }))
  onTestFinished(async () => {
    for (const server of servers) await server.close()
    for (const database of databases) await database.close()
  })
  for (const server of servers) await server.scheduler.begin()
  await servers[0]!.set({ type: 'interval', everyMs: HOUR, overlap: 'allow' })
  for (let round = 1; round <= 10; round++) {
    clock.advance(HOUR)
    await Promise.all(servers.map((server) => server.scheduler.reconcile()))
    expect(await servers[0]!.runs()).toHaveLength(round)
  }
})
