import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Database } from '../../src/contract/database.ts'
import type { ReadTx } from '../../src/contract/tx.ts'
import type { Task } from '../../src/domains/tasks/ports.ts'
import { taskStatuses } from '../../src/domains/tasks/rules.ts'
import { sqlTaskStore as store } from '../../src/stores/sql/task-store.ts'
import { dialects, openEmpty } from '../support/databases.ts'
import { ACME, addTask, addTaskIn, addTasks, NOW, OTHER } from '../support/sample-tasks.ts'

describe.each(dialects)('tasks in %s', (dialect) => {
  let database: Database
  const dependOn = (number: number, dependsOn: readonly number[]) =>
    database.write(ACME, (tx) => store.replaceDependencies(tx, ACME, number, dependsOn))

  beforeEach(async () => {
    database = await openEmpty(dialect)
  })
  afterEach(() => database.close())

  it('keeps every field of a task', async () => {
    await addTask(database, ACME)
    const full = await addTask(database, ACME, {
      title: 'Grüße — "quoted" \'x\' 😀',
      description: '# Körper\n\t\u0001 ﷽',
      status: 'blocked',
      priority: 'critical',
      progress: 33.3,
      assignee: 'ann',
      labels: ['b', 'a', 'a'],
      estimateHours: 0.5,
      blockedReason: 'waits',
      parentNumber: 1,
      updatedBy: 'bea',
    })
    expect(full).toMatchObject({ number: 2, sequence: 2 })
    expect(await store.findTask(database.read, ACME, 2)).toEqual(full)
    expect(await store.findTask(database.read, ACME, 3)).toBeUndefined()
  })

  it('counts the tasks of a project, also within a transaction and beside one that fails', async () => {
    const counts = async (tx: ReadTx) => [
      (await store.findProject(tx, ACME, 'alpha'))?.taskCount,
      (await store.listProjects(tx, ACME, { limit: 9, offset: 0 })).map(({ taskCount }) => taskCount),
      await store.countTasks(tx, ACME, { project: 'beta' }),
      await store.countTasks(tx, ACME, {}),
    ]
    await addTasks(database, ACME, [{}, { project: 'beta' }])
    await database.write(ACME, async (tx) => {
      expect((await addTaskIn(tx, ACME)).sequence).toBe(2)
      expect((await addTaskIn(tx, ACME, { project: 'beta' })).sequence).toBe(2)
      expect(await counts(tx as unknown as ReadTx)).toEqual([2, [2, 2], 2, 4])
      expect((await addTaskIn(tx, ACME)).sequence).toBe(3)
    })
    const failing = (readsFirst: boolean) =>
      database.write(ACME, async (tx) => {
        await addTaskIn(tx, ACME)
        if (readsFirst) await counts(tx as unknown as ReadTx)
        throw new Error('mine')
      })
    const settled = await Promise.allSettled([
      addTask(database, ACME),
      failing(false),
      addTask(database, ACME, { project: 'beta' }),
      failing(true),
      addTask(database, ACME),
    ])
    expect(settled.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled', 'rejected', 'fulfilled'])
    expect(await counts(database.read)).toEqual([5, [5, 3], 3, 8])
    expect((await store.findTask(database.read, ACME, 8))?.sequence).toBe(5)
  })

  it('updates the mutable fields and nothing else', async () => {
    const before = await addTask(database, ACME, { description: 'about whales', labels: ['old', 'both'] })
    await addTask(database, ACME, { labels: ['old'] })
    const after: Task = {
      ...before,
      status: 'todo',
      priority: 'high',
      progress: 50,
      description: 'about dolphins',
      assignee: 'ann',
      labels: ['both', 'new'],
      blockedReason: 'no reason',
      updatedAtMs: NOW + 99,
      updatedBy: 'bea',
    }
    await database.write(ACME, (tx) => store.updateTask(tx, ACME, before, after))
    expect(await store.findTask(database.read, ACME, before.number)).toEqual(after)
    const find = async (filter: object) => store.countTasks(database.read, ACME, filter)
    expect([await find({ label: 'old' }), await find({ label: 'new' }), await find({ label: 'both' })]).toEqual([
      1, 1, 1,
    ])
    expect([await find({ words: ['whales'] }), await find({ words: ['dolphins'] })]).toEqual([0, 1])
    expect((await store.findTask(database.read, ACME, 2))!.labels).toEqual(['old'])
  })

  it('keeps the index right when a task is made and changed several times in one commit', async () => {
    const words = ['whales', 'dolphins', 'seals']
    await Promise.all([
      database.write(ACME, async (tx) => {
        let task = await addTaskIn(tx, ACME, { description: 'about whales' })
        for (const word of ['dolphins', 'seals']) {
          const after = { ...task, description: `about ${word}` }
          await store.updateTask(tx, ACME, task, after)
          task = after
        }
      }),
      database.write(ACME, (tx) => addTaskIn(tx, ACME, { description: 'about dolphins' })),
    ])
    const counts = await Promise.all(words.map((word) => store.countTasks(database.read, ACME, { words: [word] })))
    expect(counts).toEqual([0, 1, 1])
  })

  it('searches inside a transaction see what it wrote, and nothing of one that failed', async () => {
    const outcomes = await Promise.allSettled([
      database.write(ACME, (tx) => addTaskIn(tx, ACME, { title: 'whale one' })),
      database.write(ACME, async (tx) => {
        await addTaskIn(tx, ACME, { title: 'whale two' })
        throw new Error(`saw ${await store.countTasks(tx, ACME, { words: ['whale'] })}`)
      }),
      database.write(ACME, async (tx) => {
        await addTaskIn(tx, ACME, { title: 'whale three' })
        return await store.countTasks(tx, ACME, { words: ['whale'] })
      }),
    ])
    expect(outcomes[1]).toMatchObject({ status: 'rejected', reason: { message: 'saw 2' } })
    expect(outcomes[2]).toMatchObject({ status: 'fulfilled', value: 2 })
    expect(await store.countTasks(database.read, ACME, { words: ['whale'] })).toBe(2)
  })

  it('refuses to update a task that is not there, and any write with the transaction of another tenant', async () => {
    const task = await addTask(database, ACME, { description: 'mine' })
    const ghost = { ...task, number: 99 }
    await expect(database.write(ACME, (tx) => store.updateTask(tx, ACME, ghost, ghost))).rejects.toThrow('not exist')
    const project = { slug: 'x', taskCount: 0, createdAtMs: NOW, createdBy: 'owner' }
    const foreign = [
      database.write(OTHER, async (tx) => store.takeTaskNumber(tx, ACME)),
      database.write(OTHER, (tx) => store.takeProjectSequence(tx, ACME, 'alpha')),
      database.write(OTHER, (tx) => store.insertTask(tx, ACME, ghost)),
      database.write(OTHER, (tx) => store.updateTask(tx, ACME, task, { ...task, title: 'taken' })),
      database.write(OTHER, (tx) => store.replaceDependencies(tx, ACME, 1, [1])),
      database.write(OTHER, (tx) => store.insertProject(tx, ACME, project)),
    ]
    for (const outcome of await Promise.allSettled(foreign)) expect(outcome.status).toBe('rejected')
    expect(await store.findTask(database.read, ACME, 1)).toEqual(task)
    expect(await store.countTasks(database.read, ACME, {})).toBe(1)
    expect(await store.countProjects(database.read, ACME)).toBe(1)
  })

  it('counts the tasks of a project, and lists projects in the order of their bytes', async () => {
    for (const project of ['b', 'a-b', 'ab', 'a_b', 'a.b', 'b']) await addTask(database, ACME, { project })
    const listed = await store.listProjects(database.read, ACME, { limit: 10, offset: 0 })
    expect(listed.map((project) => project.slug)).toEqual(['a-b', 'a.b', 'a_b', 'ab', 'b'])
    expect(listed.at(-1)).toEqual({ slug: 'b', taskCount: 2, createdAtMs: NOW, createdBy: 'owner' })
    expect(
      (await store.listProjects(database.read, ACME, { limit: 2, offset: 3 })).map((project) => project.slug),
    ).toEqual(['ab', 'b'])
    expect(await store.countProjects(database.read, ACME)).toBe(5)
    expect(await store.findProject(database.read, ACME, 'a.b')).toMatchObject({ taskCount: 1 })
    expect(await store.findProject(database.read, ACME, 'none')).toBeUndefined()
    expect(await database.write(ACME, (tx) => store.takeProjectSequence(tx, ACME, 'none'))).toBeUndefined()
    const again = { slug: 'b', taskCount: 0, createdAtMs: NOW, createdBy: 'owner' }
    await expect(database.write(ACME, (tx) => store.insertProject(tx, ACME, again))).rejects.toThrow()
  })

  it('knows children, and the project whose task changed last', async () => {
    expect(await store.latestProject(database.read, ACME)).toBeUndefined()
    const [first] = await addTasks(database, ACME, [
      { project: 'old' },
      { parentNumber: 1 },
      { parentNumber: 1 },
      { parentNumber: 2 },
    ])
    expect(await store.childNumbers(database.read, ACME, 1)).toEqual([2, 3])
    expect(await store.childNumbers(database.read, ACME, 4)).toEqual([])
    expect(await store.latestProject(database.read, ACME)).toBe('alpha')
    await database.write(ACME, (tx) => store.updateTask(tx, ACME, first!, { ...first!, updatedAtMs: NOW + 999 }))
    expect(await store.latestProject(database.read, ACME)).toBe('old')
  })

  it('replaces dependencies whole and counts the unmet ones exactly', async () => {
    await addTasks(
      database,
      ACME,
      taskStatuses.map((status) => ({ status })),
    )
    const task = await addTask(database, ACME)
    await dependOn(task.number, [7, 3, 1, 2, 4, 5, 6])
    expect(await store.dependencyNumbers(database.read, ACME, task.number)).toEqual([1, 2, 3, 4, 5, 6, 7])
    expect(await store.countUnmetDependencies(database.read, ACME, task.number)).toBe(5)
    await dependOn(task.number, [6])
    expect(await store.dependencyNumbers(database.read, ACME, task.number)).toEqual([6])
    expect(await store.countUnmetDependencies(database.read, ACME, task.number)).toBe(0)
    await dependOn(task.number, [])
    expect(await store.dependencyNumbers(database.read, ACME, task.number)).toEqual([])
    await expect(dependOn(task.number, [5, 5])).rejects.toThrow()
    expect(await store.dependencyNumbers(database.read, ACME, task.number)).toEqual([])
  })

  it('puts ready tasks first in the next actions, then the important, then the old', async () => {
    await addTasks(database, ACME, [
      { title: 'low', status: 'todo', priority: 'low', estimateHours: 2, assignee: 'ann' },
      { title: 'waits', status: 'todo', priority: 'critical' },
      { title: 'high', status: 'todo', priority: 'high', parentNumber: 1 },
      { title: 'critical', status: 'todo', priority: 'critical' },
      { title: 'high later', status: 'todo', priority: 'high' },
      { title: 'waits for two', status: 'todo', priority: 'low' },
      { title: 'not todo', status: 'backlog', priority: 'critical' },
      { title: 'done', status: 'done' },
      { title: 'elsewhere', status: 'todo', project: 'beta' },
    ])
    await dependOn(2, [7, 8])
    await dependOn(4, [8])
    await dependOn(6, [7, 1, 8])
    const actions = await store.listNextActions(database.read, ACME, 'alpha', 10)
    expect(actions.map((action) => [action.title, action.dependenciesUnmet])).toEqual([
      ['critical', 0],
      ['high', 0],
      ['high later', 0],
      ['low', 0],
      ['waits', 1],
      ['waits for two', 2],
    ])
    expect(actions[3]).toEqual({
      number: 1,
      title: 'low',
      priority: 'low',
      assignee: 'ann',
      estimateHours: 2,
      parentNumber: null,
      dependenciesUnmet: 0,
    })
    expect(await store.listNextActions(database.read, ACME, 'alpha', 2)).toEqual(actions.slice(0, 2))
    expect(await store.listNextActions(database.read, ACME, 'none', 2)).toEqual([])
  })

  it('lists what is blocked, the important first', async () => {
    const added = await addTasks(database, ACME, [
      { status: 'blocked', priority: 'low', blockedReason: 'a' },
      { status: 'todo' },
      { status: 'blocked', priority: 'critical', blockedReason: 'b' },
      { status: 'blocked', priority: 'critical', blockedReason: 'c', project: 'beta' },
    ])
    expect(await store.listBlocked(database.read, ACME, 'alpha', 10)).toEqual([added[2], added[0]])
    expect(await store.listBlocked(database.read, ACME, 'alpha', 1)).toEqual([added[2]])
  })

  it('shows another tenant nothing, whatever it asks for', async () => {
    const draft = { title: 'canary', labels: ['canary'], assignee: 'ann', status: 'todo', parentNumber: 1 } as const
    await addTasks(database, ACME, [draft, { ...draft, status: 'blocked' }, draft])
    await dependOn(3, [1])
    const page = { limit: 50, offset: 0, sortBy: 'created', sortOrder: 'asc' } as const
    for (const filter of [{}, { project: 'alpha' }, { label: 'canary' }, { words: ['canary'] }, { assignee: 'ann' }]) {
      expect(await store.listTasks(database.read, ACME, filter, page)).toHaveLength(3)
      expect(await store.listTasks(database.read, OTHER, filter, page)).toEqual([])
      expect(await store.countTasks(database.read, ACME, filter)).toBe(3)
      expect(await store.countTasks(database.read, OTHER, filter)).toBe(0)
    }
    expect(await store.findTask(database.read, OTHER, 1)).toBeUndefined()
    expect(await store.childNumbers(database.read, OTHER, 1)).toEqual([])
    expect(await store.listNextActions(database.read, OTHER, 'alpha', 10)).toEqual([])
    expect(await store.listBlocked(database.read, OTHER, 'alpha', 10)).toEqual([])
    expect(await store.latestProject(database.read, OTHER)).toBeUndefined()
    expect(await store.dependencyNumbers(database.read, OTHER, 3)).toEqual([])
    expect(await store.countUnmetDependencies(database.read, OTHER, 3)).toBe(0)
    expect(await store.findProject(database.read, OTHER, 'alpha')).toBeUndefined()
    expect(await store.listProjects(database.read, OTHER, { limit: 10, offset: 0 })).toEqual([])
    expect(await store.countProjects(database.read, OTHER)).toBe(0)
  })

  it('does not mix the dependencies of two tenants with the same numbers', async () => {
    await addTasks(database, ACME, [{ status: 'todo' }, { status: 'backlog' }])
    await addTasks(database, OTHER, [{ status: 'todo' }, { status: 'done' }])
    await dependOn(1, [2])
    await database.write(OTHER, (tx) => store.replaceDependencies(tx, OTHER, 1, [2]))
    const unmet = async (tenant: typeof ACME) =>
      (await store.listNextActions(database.read, tenant, 'alpha', 1))[0]!.dependenciesUnmet
    expect([await unmet(ACME), await unmet(OTHER)]).toEqual([1, 0])
    expect(await store.countUnmetDependencies(database.read, ACME, 1)).toBe(1)
    expect(await store.countUnmetDependencies(database.read, OTHER, 1)).toBe(0)
  })
})
