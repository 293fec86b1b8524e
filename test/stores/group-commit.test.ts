import { once } from 'node:events'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { Database } from '../../src/contract/database.ts'
import { limits } from '../../src/contract/limits.ts'
import type { TenantId } from '../../src/contract/principal.ts'
import type { WriteTx } from '../../src/contract/tx.ts'
import { installFaultPlan } from '../../src/kernel/fault.ts'
import type { Logger } from '../../src/kernel/logger.ts'
import { sqlLogStore as log } from '../../src/stores/sql/log-store.ts'
import { sqlTaskStore as tasks } from '../../src/stores/sql/task-store.ts'
import { dialects, newTestDatabase, type TestDatabase } from '../support/databases.ts'
import { ACME, addTaskIn, NOW, OTHER } from '../support/sample-tasks.ts'

describe.each(dialects)('group commit in %s', (dialect) => {
  let testDatabase: TestDatabase
  let database: Database
  let errors: string[]
  const points: string[] = []
  const logger: Logger = { debug() {}, info() {}, warn() {}, error: (message) => void errors.push(message) }
  const commits = () => points.filter((point) => point === 'store.commit.before').length

  beforeEach(async () => {
    testDatabase = await newTestDatabase(dialect)
    errors = []
    database = await testDatabase.open({ logger })
    points.length = 0
    installFaultPlan((point) => void points.push(point))
  })
  afterEach(async () => {
    installFaultPlan(undefined)
    await database.close()
    testDatabase.remove()
  })

  const appendIn = (tx: WriteTx, tenant: TenantId, record: string) =>
    log.appendEntry(tx, tenant, { atMs: NOW, record, taskNumber: null, recordHash: null })
  const append = (record: string, tenant = ACME) => database.write(tenant, (tx) => appendIn(tx, tenant, record))
  const appendSoon = (record: string, tenant = ACME) => database.writeSoon(tenant, (tx) => appendIn(tx, tenant, record))
  const records = async (tenant = ACME, from: Database = database) =>
    (await log.entries(from.read, tenant, 0, 10_000)).map((entry) => entry.record)
  const range = (count: number) => Array.from({ length: count }, (_, index) => `r${index}`)
  const duplicateProject = (tx: WriteTx) =>
    tasks.insertProject(tx, ACME, { slug: 'alpha', taskCount: 0, createdAtMs: NOW, createdBy: 'owner' })

  it('commits what arrives together once, in the order it arrived', async () => {
    await Promise.all(range(64).map((record) => append(record)))
    expect(commits()).toBe(1)
    expect(await records()).toEqual(range(64))
  })

  it('syncs what nobody waits for, in order with what a caller waits for', async () => {
    for (const record of ['a', 'b']) {
      void appendSoon(record)
      await database.flush()
      await append(`${record} awaited`)
    }
    void appendSoon('last')
    await database.flush()
    await database.synced()
    expect(await records()).toEqual(['a', 'a awaited', 'b', 'b awaited', 'last'])
    expect(database.problem()).toBeUndefined()
    expect(errors).toEqual([])
  })

  it('never puts more into one commit than the limit', async () => {
    const count = limits.commitBatchMax * 2 + 1
    await Promise.all(range(count).map((record) => append(record)))
    expect(commits()).toBe(3)
    expect(await records()).toEqual(range(count))
  })

  it('undoes one that throws, before, between and after its statements, and keeps its neighbours', async () => {
    await database.write(ACME, (tx) => addTaskIn(tx, ACME))
    points.length = 0
    const failing: ((tx: WriteTx) => Promise<unknown>)[] = [
      () => Promise.reject(new Error('before')),
      (tx) => addTaskIn(tx, ACME).then(() => Promise.reject(new Error('after'))),
      (tx) => addTaskIn(tx, ACME).then(() => duplicateProject(tx)),
      (tx) => appendIn(tx, ACME, 'x').then(() => Promise.reject(undefined)),
      (tx) => duplicateProject(tx).then(() => appendIn(tx, ACME, 'x')),
    ]
    const writes = failing.flatMap((work, index) => [
      append(`good ${index}`),
      database.write(ACME, work),
      database.write(ACME, (tx) => addTaskIn(tx, ACME)),
    ])
    const outcomes = await Promise.allSettled(writes)
    expect(outcomes.map((outcome) => outcome.status)).toEqual(
      failing.flatMap(() => ['fulfilled', 'rejected', 'fulfilled']),
    )
    expect(commits()).toBe(1)
    expect(await records()).toEqual(failing.map((_, index) => `good ${index}`))
    const made = outcomes.filter((_, index) => index % 3 === 2) as PromiseFulfilledResult<{ number: number }>[]
    expect(made.map((outcome) => outcome.value.number)).toEqual([2, 3, 4, 5, 6])
    expect(await tasks.countTasks(database.read, ACME, { words: ['task'] })).toBe(6)
    expect(await tasks.countTasks(database.read, ACME, { project: 'alpha' })).toBe(6)
    expect(database.problem()).toBeUndefined()
  })

  it('counts a statement that failed against the transaction that hides it, or lets it go on, never against others', async () => {
    await database.write(ACME, (tx) => addTaskIn(tx, ACME))
    const hides = (record: string) =>
      database.write(ACME, async (tx) => {
        await duplicateProject(tx).catch(() => {})
        await appendIn(tx, ACME, record).catch(() => {})
      })
    const alone = await Promise.allSettled([hides('alone')])
    const together = await Promise.allSettled([append('a'), hides('hidden'), append('b')])
    expect(together.map((outcome) => outcome.status).filter((_, index) => index !== 1)).toEqual([
      'fulfilled',
      'fulfilled',
    ])
    const acknowledged = [alone[0]!, together[1]!].map((outcome) => outcome.status === 'fulfilled')
    const retained = await records()
    expect([retained.includes('alone'), retained.includes('hidden')]).toEqual(acknowledged)
    expect(retained.filter((record) => record.length === 1)).toEqual(['a', 'b'])
  })

  it.each(['store.begin', 'store.write', 'store.commit.before'])(
    'rejects all and keeps nothing when %s fails',
    async (at) => {
      await append('kept')
      // A write that fails in one transaction is that one's own; the ninth is the head's row, and everyone's.
      let countdown = at === 'store.write' ? 9 : 1
      installFaultPlan((point) => {
        if (point === at && --countdown === 0) throw new Error('injected')
      })
      const outcomes = await Promise.allSettled(range(8).map((record) => append(record)))
      for (const outcome of outcomes) {
        expect(outcome).toMatchObject({ status: 'rejected', reason: { code: 'ERR_STORE_UNAVAILABLE', details: {} } })
      }
      expect(database.problem()).toBeDefined()
      expect(errors).toHaveLength(1)
      installFaultPlan(undefined)
      expect(await records()).toEqual(['kept'])
      await append('next')
      expect(await records()).toEqual(['kept', 'next'])
      expect(database.problem()).toBeUndefined()
    },
  )

  it('says that the outcome is unknown, never that nothing happened, when it fails after the commit', async () => {
    installFaultPlan((point) => {
      if (point === 'store.commit.after') throw new Error('injected')
    })
    await expect(append('there')).rejects.toMatchObject({
      code: 'ERR_STORE_UNAVAILABLE',
      details: { outcome: 'unknown' },
    })
    installFaultPlan(undefined)
    await append('next')
    expect(await records()).toEqual(['there', 'next'])
  })

  it('acknowledges only what another connection can already see', async () => {
    const second = await testDatabase.open()
    for (const record of range(5)) {
      await append(record)
      expect((await records(ACME, second)).at(-1)).toBe(record)
    }
    await second.close()
  })

  it('shows readers nothing before the commit', async () => {
    await append('first')
    const seen: string[][] = []
    await Promise.all([
      database.write(ACME, async (tx) => {
        await appendIn(tx, ACME, 'second')
        seen.push(
          await records(),
          (await log.entries(tx, ACME, 0, 9)).map((entry) => entry.record),
        )
      }),
      database.write(ACME, async () => void seen.push(await records())),
    ])
    expect(seen).toEqual([['first'], ['first', 'second'], ['first']])
    expect(await records()).toEqual(['first', 'second'])
  })

  it('keeps a snapshot still while writes go on', async () => {
    await append('first')
    const during = await database.snapshot(async (tx) => {
      const read = async () => (await log.entries(tx, ACME, 0, 99)).map((entry) => entry.record)
      const before = await read()
      await Promise.all(range(20).map((record) => append(record)))
      await append('last', OTHER)
      return { before, after: await read(), head: (await log.head(tx, ACME)).size, tenants: await log.tenants(tx) }
    })
    expect(during).toEqual({ before: ['first'], after: ['first'], head: 1, tenants: [ACME] })
    expect(await records()).toHaveLength(21)
    await expect(database.snapshot(() => Promise.reject(new Error('mine')))).rejects.toThrow('mine')
    expect(await database.snapshot((tx) => log.tenants(tx))).toEqual([ACME, OTHER])
  })

  it('serves many snapshots at once', async () => {
    await append('first')
    const sizes = await Promise.all(
      range(9).map(() => database.snapshot(async (tx) => (await log.head(tx, ACME)).size)),
    )
    expect(sizes).toEqual(new Array(9).fill(1))
  })

  it('writes soon ones in order with the others, in the same commit', async () => {
    void appendSoon('soon 1')
    const waited = append('urgent')
    void appendSoon('soon 2')
    await waited
    expect(commits()).toBe(1)
    expect(await records()).toEqual(['soon 1', 'urgent', 'soon 2'])
  })

  it('writes soon ones by itself, after the delay or when enough have gathered', async () => {
    await append('first')
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    try {
      const delayed = nextCommit()
      expect(appendSoon('alone')).toBeUndefined()
      vi.advanceTimersByTime(limits.readRecordDelayMs - 1)
      expect(points.filter((point) => point === 'store.begin')).toHaveLength(1)
      vi.advanceTimersByTime(1)
      await delayed
      const gathered = nextCommit()
      for (const record of range(limits.readRecordsBatchMax)) void appendSoon(record)
      await gathered
    } finally {
      vi.useRealTimers()
    }
    await database.flush()
    expect(await records()).toEqual(['first', 'alone', ...range(limits.readRecordsBatchMax)])
    expect(commits()).toBe(3)
  })

  it('reports a soon one that failed and keeps its neighbours', async () => {
    void appendSoon('a')
    void database.writeSoon(ACME, () => Promise.reject(new Error('mine')))
    void appendSoon('b')
    await database.flush()
    expect(await records()).toEqual(['a', 'b'])
    expect(errors).toHaveLength(1)
  })

  it('says once when it takes a soon one, also when its commit fails', async () => {
    const seen: string[] = []
    const soon = (name: string) =>
      database.writeSoon(
        ACME,
        (tx) => {
          seen.push(`${name} runs`)
          return appendIn(tx, ACME, name)
        },
        () => seen.push(`${name} taken`),
      )
    void soon('a')
    void soon('b')
    await database.flush()
    expect(seen).toEqual(['a taken', 'b taken', 'a runs', 'b runs'])
    seen.length = 0
    installFaultPlan((point) => {
      if (point === 'store.begin') throw new Error('planned')
    })
    void soon('c')
    await database.flush()
    expect(seen).toEqual(['c taken'])
    expect(await records()).toEqual(['a', 'b'])
  })

  it('flushes what was handed in so far, even while more keeps coming', async () => {
    let stop = false
    const writers = range(8).map(async (record) => {
      for (let index = 0; !stop; index++) await append(`${record}.${index}`)
    })
    void appendSoon('soon')
    await database.flush()
    stop = true
    expect(await records()).toContain('soon')
    await Promise.all(writers)
    await database.flush()
  })

  it('closes after everything it took, and takes nothing more', async () => {
    const writes = range(300).map((record) => append(record))
    void appendSoon('soon')
    const closing = database.close()
    await expect(append('late')).rejects.toMatchObject({ code: 'ERR_SHUTTING_DOWN' })
    await expect(appendSoon('late')).rejects.toMatchObject({ code: 'ERR_SHUTTING_DOWN' })
    await closing
    await Promise.all(writes)
    await database.close()
    const again = await testDatabase.open()
    expect(await records(ACME, again)).toEqual([...range(300), 'soon'])
    await again.close()
  })

  function nextCommit(): Promise<unknown> {
    const target = new EventTarget()
    const happened = once(target, 'commit')
    installFaultPlan((point) => {
      points.push(point)
      if (point === 'store.commit.after') target.dispatchEvent(new Event('commit'))
    })
    return happened
  }
})
