import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, inject, it } from 'vitest'
import { appendLeaf, emptyHead, leafHash, type TreeHead } from '../../src/audit/tree.ts'
import type { Database } from '../../src/contract/database.ts'
import { type TenantId, tenantId } from '../../src/contract/principal.ts'
import type { WriteTx } from '../../src/contract/tx.ts'
import { systemClock } from '../../src/kernel/clock.ts'
import { silentLogger } from '../../src/kernel/logger.ts'
import { openPostgresDatabase } from '../../src/stores/postgres/postgres-database.ts'
import { sqlLogStore as log } from '../../src/stores/sql/log-store.ts'
import { sqlTaskStore as tasks } from '../../src/stores/sql/task-store.ts'
import { dialects, newTestDatabase, openEmpty } from '../support/databases.ts'
import { createDatabase } from '../support/postgres.ts'
import { runNode } from '../support/run-node.ts'
import { ACME, addTaskIn, NOW, OTHER } from '../support/sample-tasks.ts'

/** How one transaction ends: well, with an error of its own at some point, or with a statement that the store refuses. */
const endings = ['ok', 'throws at once', 'throws after the task', 'throws at the end', 'breaks a constraint'] as const
type Finalizer = (typeof endings)[number]

async function transaction(tx: WriteTx, tenant: TenantId, finalizer: Finalizer, name: string): Promise<number> {
  if (finalizer === 'throws at once') throw new Error(finalizer)
  const task = await addTaskIn(tx, tenant, { title: name, labels: ['a', 'b'] })
  if (finalizer === 'throws after the task') throw new Error(finalizer)
  if (finalizer === 'breaks a constraint') await tasks.insertTask(tx, tenant, task)
  const entry = { atMs: NOW, record: `${task.number}`, taskNumber: task.number, recordHash: name }
  await log.appendEntry(tx, tenant, entry)
  if (finalizer === 'throws at the end') throw new Error(finalizer)
  return task.number
}

/** Numbers 1…n without a gap, the log with the same numbers in order, and a head that fits the tree. */
async function expectGapless(database: Database, tenant: TenantId, count: number): Promise<void> {
  const entries = await log.entries(database.read, tenant, 0, 100_000)
  const numbers = Array.from({ length: count }, (_, index) => index + 1)
  expect(entries.map((entry) => entry.taskNumber)).toEqual(numbers)
  expect(entries.map((entry) => entry.seq)).toEqual(numbers.map((number) => number - 1))
  const page = { limit: 100_000, offset: 0, sortBy: 'created', sortOrder: 'asc' } as const
  const listed = await tasks.listTasks(database.read, tenant, {}, page)
  expect(listed.map((task) => task.number)).toEqual(numbers)
  expect(await tasks.countTasks(database.read, tenant, {})).toBe(count)
  if (count > 0) {
    expect(await tasks.countTasks(database.read, tenant, { project: 'alpha' })).toBe(count)
    expect((await tasks.findTask(database.read, tenant, count))!.sequence).toBe(count)
  }
  expect(await tasks.countTasks(database.read, tenant, { label: 'a' })).toBe(count)
  let head: TreeHead = emptyHead
  for (const entry of entries) head = appendLeaf(head, leafHash(entry.record)).head
  expect(await log.head(database.read, tenant)).toEqual(head)
}

describe.each(dialects)('numbers in %s', (dialect) => {
  it('have no gaps, whatever fails around them', async () => {
    const plans = fc.array(
      fc.record({ finalizer: fc.constantFrom(...endings), tenant: fc.constantFrom(ACME, OTHER) }),
      {
        minLength: 1,
        maxLength: 24,
      },
    )
    await fc.assert(
      fc.asyncProperty(plans, async (plan) => {
        const database = await openEmpty(dialect)
        try {
          const outcomes = await Promise.allSettled(
            plan.map(({ finalizer, tenant }, index) =>
              database.write(tenant, (tx) => transaction(tx, tenant, finalizer, `t${index}`)),
            ),
          )
          expect(outcomes.map((outcome) => outcome.status === 'fulfilled')).toEqual(
            plan.map(({ finalizer }) => finalizer === 'ok'),
          )
          for (const tenant of [ACME, OTHER]) {
            const made = plan.filter((step) => step.tenant === tenant && step.finalizer === 'ok').length
            await expectGapless(database, tenant, made)
          }
        } finally {
          await database.close()
        }
      }),
      { numRuns: dialect === 'SQLite' ? 40 : 12 },
    )
  })

  it('have no gaps under 64 writers that fail at random', async () => {
    const seed = fc.sample(fc.integer({ min: 1, max: 2 ** 31 - 1 }), 1)[0]!
    let state = seed
    const roll = () => {
      state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff
      return state
    }
    const database = await openEmpty(dialect)
    let made = 0
    const writer = async (name: number) => {
      for (let turn = 0; turn < 12; turn++) {
        const finalizer = endings[roll() % endings.length]!
        const work = database.write(ACME, (tx) => transaction(tx, ACME, finalizer, `w${name}.${turn}`))
        await work.then(
          () => made++,
          () => {},
        )
      }
    }
    await Promise.all(Array.from({ length: 64 }, (_, name) => writer(name)))
    expect(made, `seed ${seed}`).toBeGreaterThan(0)
    await expectGapless(database, ACME, made)
    await database.close()
  })
})

describe('several writers of one PostgreSQL database', () => {
  it('share it between two pools without gaps', async () => {
    const testDatabase = await newTestDatabase('PostgreSQL')
    const both = [await testDatabase.open(), await testDatabase.open()]
    const writes = Array.from({ length: 200 }, (_, index) =>
      both[index % 2]!.write(ACME, (tx) => transaction(tx, ACME, index % 5 === 4 ? 'throws at the end' : 'ok', 'x')),
    )
    const outcomes = await Promise.allSettled(writes)
    const numbers = outcomes.flatMap((outcome) => (outcome.status === 'fulfilled' ? [outcome.value] : []))
    expect(numbers.sort((a, b) => a - b)).toEqual(Array.from({ length: 160 }, (_, index) => index + 1))
    await expectGapless(both[0]!, ACME, 160)
    await Promise.all(both.map((database) => database.close()))
  })

  it('share it between processes, several tenants per commit, without gaps and without a deadlock', async () => {
    const url = await createDatabase(inject('postgresUrl'))
    const tenants = ['a', 'b', 'c', 'd', 'e']
    const program = join(import.meta.dirname, '../support/append-process.ts')
    const orders = [tenants, [...tenants].reverse(), ['c', 'a', 'e', 'b', 'd']]
    const finished = await Promise.all(
      orders.map((order, index) => runNode([program, url, `p${index}`, '210', ...order], 240_000)),
    )
    expect(finished.map(({ code, stdout, stderr }) => [code, stdout, stderr])).toEqual(
      orders.map(() => [0, '180\n', '']),
    )
    const database = await openPostgresDatabase({ url, clock: systemClock, logger: silentLogger })
    let total = 0
    for (const tenant of tenants.map(tenantId)) {
      const entries = await log.entries(database.read, tenant, 0, 10_000)
      expect(entries.map((entry) => entry.taskNumber)).toEqual(entries.map((_, index) => index + 1))
      expect((await log.head(database.read, tenant)).size).toBe(entries.length)
      for (const name of ['p0', 'p1', 'p2']) {
        const turns = entries.map((entry) => JSON.parse(entry.record)).filter((record) => record.writer === name)
        expect(turns.map((record) => record.turn)).toEqual(turns.map((record) => record.turn).sort((a, b) => a - b))
      }
      total += entries.length
    }
    expect(total).toBe(540)
    await database.close()
  })
})
