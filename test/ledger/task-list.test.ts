import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { movableClock, openTestApp, type TestApp } from '../support/app.ts'
import { expectFailure, move, newTask, think } from '../support/ledger.ts'

/** Six tasks, one a minute apart, of which every filter and order can be told. */
const clock = movableClock()
const startMs = clock.nowMs()
let app: TestApp
const at = (minute: number): string => new Date(startMs + minute * 60_000).toISOString()

const tasks = [
  { title: 'Package setup', project: 'colibri', priority: 'critical', assignee: 'alice', labels: ['mcp', 'phase-0'] },
  { title: 'Write tests', project: 'colibri', priority: 'low', assignee: 'bob', labels: ['mcp'] },
  { title: 'Running the migrations', project: 'castle', priority: 'high', description: 'Naïve café query' },
  { title: 'Deploy', project: 'castle', priority: 'normal', labels: ['ops'], description: 'runs on Tuesday' },
  { title: 'Übergröße prüfen', project: 'castle', priority: 'high', assignee: 'alice' },
  { title: 'Zed', project: 'zoo', priority: 'critical', description: 'the word setup is here' },
] as const

beforeAll(async () => {
  app = await openTestApp({ clock })
  for (const task of tasks) {
    await newTask(app, task)
    clock.advance(60_000)
  }
  await move(app, 'T-0002', 'todo', 'in_progress')
  clock.advance(60_000)
  await app.ask('task_update', { task_id: 'T-0001', progress: 80 })
  clock.advance(60_000)
  await app.ask('task_update', { task_id: 'T-0004', progress: 20 })
})
afterAll(() => app[Symbol.asyncDispose]())

type List = { tasks: { task_id: string }[]; total_count: number; returned_count: number; offset: number; limit: number }
const list = (args: object = {}) => app.ask<List>('task_list', args)
const numbers = async (args: object = {}): Promise<number[]> =>
  (await list(args)).tasks.map(({ task_id }) => Number(task_id.slice(2)))

describe('task_list', () => {
  it('answers what the document says, the last updated first', async () => {
    const answer = await list()
    expect(answer).toMatchObject({ total_count: 6, returned_count: 6, offset: 0, limit: 50 })
    expect(answer.tasks[0]).toEqual({
      task_id: 'T-0004',
      title: 'Deploy',
      project: 'castle',
      status: 'backlog',
      priority: 'normal',
      progress: 20,
      assignee: 'unassigned',
      created_at: at(3),
      updated_at: at(8),
    })
    expect(await numbers()).toEqual([4, 1, 2, 6, 5, 3])
  })

  const filters: readonly [object, number[]][] = [
    [{ project: 'castle' }, [3, 4, 5]],
    [{ project: 'nowhere' }, []],
    [{ status: ['in_progress'] }, [2]],
    [{ status: ['in_progress', 'backlog'] }, [1, 2, 3, 4, 5, 6]],
    [{ status: ['todo', 'todo'] }, []],
    [{ status: [] }, []],
    [{ priority: ['critical', 'low'] }, [1, 2, 6]],
    [{ priority: ['high'], project: 'castle' }, [3, 5]],
    [{ assignee: 'alice' }, [1, 5]],
    [{ assignee: 'unassigned' }, [3, 4, 6]],
    [{ label: 'mcp' }, [1, 2]],
    [{ label: 'mcp', assignee: 'bob' }, [2]],
    [{ label: 'mc' }, []],
    [{ created_after: at(3) }, [5, 6]],
    [{ created_before: at(3) }, [1, 2, 3]],
    [{ created_after: at(1), created_before: at(4) }, [3, 4]],
    [{ created_after: '2026-04-08T22:17:30+00:00' }, [4, 5, 6]],
    [{ created_before: '2020-01-01' }, []],
    [{ search: 'setup' }, [1, 6]],
    [{ search: 'SETUP package' }, [1]],
    [{ search: 'run' }, [3, 4]],
    [{ search: 'test' }, [2]],
    [{ search: 'naive cafe' }, [3]],
    [{ search: 'übergrösse' }, []],
    [{ search: 'ubergroße' }, [5]],
    [{ search: 'Tuesday', project: 'zoo' }, []],
    [{ search: '"deploy" OR *' }, []],
    [{ search: 'NEAR(deploy' }, []],
    [{ search: 'colibri' }, []],
  ]
  it.each(filters)('filters by %o', async (filter, expected) => {
    expect(await numbers({ ...filter, sort_by: 'created', sort_order: 'asc' })).toEqual(expected)
    expect(await list(filter)).toMatchObject({ total_count: expected.length, returned_count: expected.length })
  })

  const orders: readonly [object, number[]][] = [
    [{ sort_by: 'created' }, [6, 5, 4, 3, 2, 1]],
    [{ sort_by: 'created', sort_order: 'asc' }, [1, 2, 3, 4, 5, 6]],
    [{ sort_by: 'updated', sort_order: 'asc' }, [3, 5, 6, 2, 1, 4]],
    [{ sort_by: 'priority' }, [6, 1, 5, 3, 4, 2]],
    [{ sort_by: 'priority', sort_order: 'asc' }, [2, 4, 3, 5, 1, 6]],
    [{ sort_by: 'progress', sort_order: 'desc' }, [1, 4, 6, 5, 3, 2]],
    [{ sort_order: 'asc' }, [3, 5, 6, 2, 1, 4]],
  ]
  it.each(orders)('sorts by %o', async (order, expected) => {
    expect(await numbers(order)).toEqual(expected)
  })

  it('gives pages that together are the whole', async () => {
    const whole = await numbers({ sort_by: 'priority' })
    const pages: number[] = []
    for (let offset = 0; offset < 8; offset += 2) {
      const page = await list({ sort_by: 'priority', limit: 2, offset })
      expect(page).toMatchObject({ total_count: 6, offset, limit: 2, returned_count: page.tasks.length })
      pages.push(...page.tasks.map(({ task_id }) => Number(task_id.slice(2))))
    }
    expect(pages).toEqual(whole)
  })

  const refused: readonly [object, string][] = [
    [{ limit: 0 }, 'limit'],
    [{ limit: 501 }, 'limit'],
    [{ limit: 1.5 }, 'limit'],
    [{ offset: -1 }, 'offset'],
    [{ status: 'todo' }, 'status'],
    [{ status: ['open'] }, 'status.0'],
    [{ priority: ['urgent'] }, 'priority.0'],
    [{ sort_by: 'title' }, 'sort_by'],
    [{ sort_order: 'up' }, 'sort_order'],
    [{ created_after: 'yesterday' }, 'created_after'],
    [{ created_before: '2026-13-01T00:00:00Z' }, 'created_before'],
    [{ search: '' }, 'search'],
    [{ search: '!?' }, 'search'],
  ]
  it.each(refused)('refuses %o', async (args, field) => {
    await expectFailure(app, 'task_list', args, 'ERR_INVALID_INPUT', { field })
  })

  it('accepts the bounds of a page', async () => {
    expect(await list({ limit: 500, offset: 1_000_000_000 })).toMatchObject({ returned_count: 0, total_count: 6 })
    expect(await list({ limit: 1 })).toMatchObject({ returned_count: 1, limit: 1 })
  })

  it('finds what a task says now and not what it said before', async () => {
    await using own = await openTestApp()
    const found = async (search: string) => (await own.ask<List>('task_list', { search })).total_count
    const task_id = await newTask(own, { title: 'one', description: 'apples', labels: ['red', 'fruit'] })
    await own.ask('task_update', { task_id, description: 'pears', labels: ['fruit', 'green'] })
    expect([await found('apples'), await found('pears'), await found('one')]).toEqual([0, 1, 1])
    const labelled = async (label: string) => (await own.ask<List>('task_list', { label })).total_count
    expect([await labelled('red'), await labelled('fruit'), await labelled('green')]).toEqual([0, 1, 1])
  })
})

describe('task_get', () => {
  it('adds the thoughts and the sub-tasks only when asked', async () => {
    const parent = await newTask(app)
    const children = [await newTask(app, { parent_id: parent }), await newTask(app, { parent_id: parent })]
    await newTask(app, { parent_id: children[0]! })
    const thoughts = [await think(app, parent, 'one'), await think(app, parent, 'two')]
    const plain = await app.ask('task_get', { task_id: parent })
    expect(plain).not.toHaveProperty('thought_trail')
    expect(plain).not.toHaveProperty('dependents')
    expect(
      await app.ask('task_get', { task_id: parent, include_dependents: true, include_thought_trail: true }),
    ).toEqual({ ...plain, dependents: children, thought_trail: thoughts.map(({ thought_id }) => thought_id) })
    expect(
      await app.ask('task_get', { task_id: children[1], include_dependents: true, include_thought_trail: true }),
    ).toMatchObject({ parent_id: parent, dependents: [], thought_trail: [] })
  })

  it('does not know a task that is not there', async () => {
    for (const task_id of ['T-9999', 'T-00001', 't-0001', '1', '../T-0001', `T-${'9'.repeat(20)}`]) {
      await expectFailure(app, 'task_get', { task_id }, 'ERR_TASK_NOT_FOUND', { field: 'task_id' })
    }
    await expectFailure(app, 'task_get', {}, 'ERR_INVALID_INPUT', { field: 'task_id', constraint: 'required' })
  })
})
