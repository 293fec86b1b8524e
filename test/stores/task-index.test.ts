import { DatabaseSync } from 'node:sqlite'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Database } from '../../src/contract/database.ts'
import type { Task } from '../../src/domains/tasks/ports.ts'
import { installFaultPlan } from '../../src/kernel/fault.ts'
import { sqlTaskStore as store } from '../../src/stores/sql/task-store.ts'
import { newTestDatabase, type TestDatabase } from '../support/databases.ts'
import { ACME, addTaskIn, OTHER } from '../support/sample-tasks.ts'

/** SQLite enters tasks into its indexes in bulk; what is found must not depend on how far that has come. */
describe('the indexes of tasks in SQLite', () => {
  let testDatabase: TestDatabase
  let database: Database
  beforeEach(async () => {
    testDatabase = await newTestDatabase('SQLite')
    database = await testDatabase.open()
  })
  afterEach(async () => {
    installFaultPlan(undefined)
    await database.close()
    testDatabase.remove()
  })

  const words = ['whale', 'seal', 'otter'] as const
  const page = { limit: 5000, offset: 0, sortBy: 'created', sortOrder: 'asc' } as const
  const add = (count: number, word: string, tenant = ACME) =>
    Promise.all(
      Array.from({ length: count }, () =>
        database.write(tenant, (tx) => addTaskIn(tx, tenant, { description: `about ${word}s`, labels: [word, 'all'] })),
      ),
    )
  const change = (task: Task, word: string): Promise<Task> => {
    const after = { ...task, description: `now ${word}s`, labels: [word, 'all'] }
    return database.write(ACME, (tx) => store.updateTask(tx, ACME, task, after)).then(() => after)
  }

  async function expectFound(expected: readonly Task[], from: Database = database): Promise<void> {
    for (const word of words) {
      const numbers = expected.filter((task) => task.labels.includes(word)).map((task) => task.number)
      for (const filter of [{ words: [word] }, { label: word }, { words: [word], label: 'all' }]) {
        const listed = await store.listTasks(from.read, ACME, filter, page)
        expect(
          listed.map((task) => task.number),
          JSON.stringify(filter),
        ).toEqual(numbers)
        expect(await store.countTasks(from.read, ACME, filter)).toBe(numbers.length)
      }
    }
  }

  /** Past the program: where the mark is, and SQLite's own comparison of the index with the rows up to the mark. */
  function indexedTo(): number {
    const file = new DatabaseSync(testDatabase.location)
    file.exec("INSERT INTO tasks_search (tasks_search, rank) VALUES ('integrity-check', 1)")
    const row = file.prepare('SELECT indexed_to FROM task_index').get() as { indexed_to: number }
    file.close()
    return row.indexed_to
  }

  it('find every task from its commit on, before and after it is entered', async () => {
    let all: Task[] = []
    for (const [index, count] of [1, 100, 200, 1, 300].entries()) {
      all = [...all, ...(await add(count, words[index % 3]!))]
      await expectFound(all)
    }
    expect(indexedTo()).toBeGreaterThan(256)
    expect(indexedTo()).toBeLessThan(all.length)
    await add(3, 'whale', OTHER)
    await expectFound(all)
  })

  it('follow changes of tasks that are entered and of tasks that are not', async () => {
    const all = [...(await add(300, 'whale')), ...(await add(20, 'seal'))]
    const mark = indexedTo()
    expect(mark).toBeGreaterThan(200)
    for (const index of [0, 1, mark - 1, mark, 310, 319]) {
      for (const word of ['otter', 'seal', 'otter']) all[index] = await change(all[index]!, word)
    }
    await expectFound(all)
    await add(300, 'none')
    expect(indexedTo()).toBeGreaterThan(mark)
    await expectFound(all)
  })

  it('are the same to a second connection, a snapshot and a program that starts again', async () => {
    const all = [...(await add(280, 'whale')), ...(await add(9, 'seal'))]
    const second = await testDatabase.open()
    await expectFound(all, second)
    all.push(...(await add(2, 'otter')))
    await expectFound(all, second)
    await second.close()
    const counts = await database.snapshot(async (tx) => {
      const count = () => store.countTasks(tx, ACME, { words: ['otter'] })
      const before = await count()
      await add(300, 'otter')
      return [before, await count()]
    })
    expect(counts).toEqual([2, 2])
    await database.close()
    database = await testDatabase.open()
    expect(await store.countTasks(database.read, ACME, { words: ['otter'] })).toBe(302)
  })

  it('keep nothing of a commit that fails while it enters tasks', async () => {
    const all = await add(1, 'whale')
    let points = 0
    const isStep = (point: string) => point === 'store.write' || point === 'store.commit.before'
    installFaultPlan((point) => void (isStep(point) && points++))
    all.push(...(await add(256, 'seal')))
    const mark = indexedTo()
    expect(mark).toBe(257)
    // The last steps of such a commit: words, labels and the mark are entered, then the head, then the commit itself.
    for (let step = points - 4; step <= points; step++) {
      let count = 0
      installFaultPlan((point) => {
        if (isStep(point) && ++count === step) throw new Error('injected')
      })
      await expect(add(256, 'otter')).rejects.toMatchObject({ code: 'ERR_STORE_UNAVAILABLE' })
      installFaultPlan(undefined)
      expect(indexedTo()).toBe(mark)
      await expectFound(all)
    }
    all.push(...(await add(256, 'otter')))
    expect(indexedTo()).toBe(513)
    await expectFound(all)
  })

  it('agree with the tasks after any mixture of work', async () => {
    const steps = fc.array(
      fc.oneof(
        fc.record({ add: fc.integer({ min: 1, max: 120 }), word: fc.constantFrom(...words) }),
        fc.record({ change: fc.nat(), word: fc.constantFrom(...words) }),
      ),
      { minLength: 1, maxLength: 10 },
    )
    await fc.assert(
      fc.asyncProperty(steps, async (plan) => {
        const own = await newTestDatabase('SQLite')
        const outer = database
        database = await own.open()
        try {
          const all: Task[] = []
          for (const step of plan) {
            if ('add' in step) all.push(...(await add(step.add, step.word)))
            else if (all.length > 0)
              all[step.change % all.length] = await change(all[step.change % all.length]!, step.word)
          }
          await expectFound(all)
        } finally {
          await database.close()
          own.remove()
          database = outer
        }
      }),
      { numRuns: 15 },
    )
  })
})
