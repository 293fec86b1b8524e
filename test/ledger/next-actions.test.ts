import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type Answer, openTestApp, type TestApp } from '../support/app.ts'
import { expectFailure, move, newTask } from '../support/ledger.ts'

let app: TestApp
beforeEach(async () => {
  app = await openTestApp()
})
afterEach(() => app[Symbol.asyncDispose]())

type NextActions = { next_actions: Answer[]; count: number; project: string; blocked?: Answer[] }
const next = (args: object = {}) => app.ask<NextActions>('task_next_actions', args)
const todo = async (rest: object = {}): Promise<string> => {
  const task = await newTask(app, rest)
  await move(app, task, 'todo')
  return task
}
const unmetOf = ({ next_actions }: NextActions) =>
  Object.fromEntries(next_actions.map((action) => [action['task_id'], action['dependencies_unmet']]))

describe('task_next_actions', () => {
  it('answers the example of the document in its shape', async () => {
    await todo({ title: 'Wire up', priority: 'high', assignee: 'agent-bob', estimate_hours: 4 })
    await todo({
      title: 'Write tests',
      priority: 'high',
      estimate_hours: 2,
      parent_id: 'T-0001',
      depends_on: ['T-0001'],
    })
    expect(await next({ project: 'castellan', limit: 5 })).toEqual({
      next_actions: [
        {
          task_id: 'T-0001',
          title: 'Wire up',
          priority: 'high',
          assignee: 'agent-bob',
          estimate_hours: 4,
          dependencies_unmet: 0,
        },
        {
          task_id: 'T-0002',
          title: 'Write tests',
          priority: 'high',
          assignee: 'unassigned',
          estimate_hours: 2,
          parent_id: 'T-0001',
          dependencies_unmet: 1,
        },
      ],
      count: 2,
      project: 'castellan',
    })
  })

  it('lists only todo, the ready before the unready, then by priority, then the oldest', async () => {
    await newTask(app, { priority: 'critical' })
    await todo({ priority: 'low' })
    await todo({ priority: 'critical', depends_on: ['T-0001'] })
    await todo({ priority: 'normal' })
    await todo({ priority: 'critical' })
    await todo({ priority: 'normal' })
    await todo({ priority: 'low', depends_on: ['T-0001', 'T-0002'] })
    await move(app, await newTask(app), 'todo', 'in_progress')
    await move(app, await newTask(app), 'todo', 'blocked')
    await move(app, await newTask(app), 'cancelled')
    const answer = await next()
    expect(answer.next_actions.map((action) => action['task_id'])).toEqual([
      ...['T-0005', 'T-0004', 'T-0006', 'T-0002'],
      ...['T-0003', 'T-0007'],
    ])
    expect(answer.count).toBe(6)
  })

  it('counts a dependency as met once it is done or cancelled', async () => {
    for (let index = 0; index < 3; index++) await newTask(app)
    const task = await todo({ depends_on: ['T-0001', 'T-0002', 'T-0003', 'T-0003'] })
    expect(unmetOf(await next())).toEqual({ [task]: 3 })
    await move(app, 'T-0001', 'todo', 'in_progress', 'review')
    expect(unmetOf(await next())).toMatchObject({ [task]: 3 })
    await move(app, 'T-0001', 'done')
    await move(app, 'T-0002', 'cancelled')
    expect(unmetOf(await next())).toMatchObject({ [task]: 1 })
    await app.ask('task_update', { task_id: task, depends_on: ['T-0001'] })
    expect(unmetOf(await next())).toMatchObject({ [task]: 0 })
    await app.ask('task_update', { task_id: task, depends_on: [] })
    expect(await app.ask('task_get', { task_id: task })).not.toHaveProperty('depends_on')
  })

  it('shows the blocked ones with their reasons when asked', async () => {
    const blocked = await newTask(app, { title: 'stuck' })
    await move(app, blocked, 'todo')
    await app.ask('task_update', { task_id: blocked, status: 'blocked', blocked_reason: 'no key' })
    expect(await next()).not.toHaveProperty('blocked')
    expect((await next({ include_blocked: true })).blocked).toEqual([
      { task_id: blocked, title: 'stuck', blocked_reason: 'no key' },
    ])
  })

  it('takes the project that was last worked on when none is named', async () => {
    expect(await next()).toEqual({ next_actions: [], count: 0, project: '' })
    const old = await todo({ project: 'old' })
    await todo({ project: 'new' })
    expect(await next()).toMatchObject({ project: 'new', count: 1 })
    // Of two within one millisecond the newer task counts.
    for (const madeMs = Date.now(); Date.now() === madeMs; ) await new Promise(setImmediate)
    await app.ask('task_update', { task_id: old, progress: 5 })
    expect(await next()).toMatchObject({ project: 'old', count: 1 })
  })

  it('does not know a project that is not there, and refuses a limit out of range', async () => {
    await expectFailure(app, 'task_next_actions', { project: 'nowhere' }, 'ERR_PROJECT_NOT_FOUND', { field: 'project' })
    for (const limit of [0, 101, 1.5]) {
      await expectFailure(app, 'task_next_actions', { limit }, 'ERR_INVALID_INPUT', { field: 'limit' })
    }
  })

  it('gives 20 unless told otherwise, and 100 at most', async () => {
    for (let index = 0; index < 101; index++) await todo()
    expect([(await next()).count, (await next({ limit: 100 })).count, (await next({ limit: 1 })).count]).toEqual([
      20, 100, 1,
    ])
  })
})

describe('depends_on', () => {
  it('is kept, in order and once each', async () => {
    for (let index = 0; index < 3; index++) await newTask(app)
    const task = await newTask(app, { depends_on: ['T-0003', 'T-0001', 'T-0003'] })
    expect(await app.ask('task_get', { task_id: task })).toMatchObject({ depends_on: ['T-0001', 'T-0003'] })
  })

  it('must name tasks that are there', async () => {
    await newTask(app)
    const details = { field: 'depends_on' }
    const request = { title: 't', project: 'p', depends_on: ['T-0001', 'T-0099'] }
    await expectFailure(app, 'task_create', request, 'ERR_TASK_NOT_FOUND', details)
    await expectFailure(
      app,
      'task_update',
      { task_id: 'T-0001', depends_on: ['nonsense'] },
      'ERR_TASK_NOT_FOUND',
      details,
    )
    const many = Array.from({ length: 101 }, () => 'T-0001')
    await expectFailure(app, 'task_update', { task_id: 'T-0001', depends_on: many }, 'ERR_INVALID_INPUT', details)
  })

  it('never closes a circle: not on itself, not directly, not the long way', async () => {
    for (let index = 0; index < 6; index++) await newTask(app)
    const depend = (task_id: string, ...depends_on: string[]) => app.ask('task_update', { task_id, depends_on })
    const refuse = async (task_id: string, depends_on: string[], circle: string[]) => {
      const failure = await app.refusal('task_update', { task_id, depends_on })
      expect(failure).toMatchObject({ code: 'ERR_CIRCULAR_DEPENDENCY', details: { field: 'depends_on', circle } })
    }
    await refuse('T-0001', ['T-0001'], ['T-0001', 'T-0001'])
    await depend('T-0002', 'T-0001')
    await refuse('T-0001', ['T-0002'], ['T-0001', 'T-0002', 'T-0001'])
    await depend('T-0003', 'T-0002')
    await depend('T-0004', 'T-0003')
    await depend('T-0005', 'T-0004', 'T-0006')
    await refuse('T-0001', ['T-0006', 'T-0005'], ['T-0001', 'T-0005', 'T-0004', 'T-0003', 'T-0002', 'T-0001'])
    expect(await app.ask('task_get', { task_id: 'T-0001' })).not.toHaveProperty('depends_on')
    await depend('T-0002')
    await depend('T-0001', 'T-0005')
    await depend('T-0006', 'T-0002')
  })

  it('warns when work begins before its dependencies are finished', async () => {
    await newTask(app)
    const task_id = await todo({ depends_on: ['T-0001'] })
    const answer = await app.ask('task_update', { task_id, status: 'in_progress' })
    expect(answer['warnings']).toEqual([expect.stringContaining('1 dependencies are unmet')])
  })
})
