import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openTestApp, type TestApp } from '../support/app.ts'
import { expectFailure, move, newTask } from '../support/ledger.ts'

let app: TestApp
beforeAll(async () => {
  app = await openTestApp()
})
afterAll(() => app[Symbol.asyncDispose]())

/** The document's table, and a way through it to each state. */
const transitions: Readonly<Record<string, readonly string[]>> = {
  backlog: ['todo', 'cancelled'],
  todo: ['in_progress', 'blocked', 'cancelled'],
  in_progress: ['review', 'blocked', 'cancelled'],
  blocked: ['todo', 'in_progress', 'cancelled'],
  review: ['done', 'backlog', 'blocked', 'cancelled'],
  done: [],
  cancelled: [],
}
const ways: Readonly<Record<string, readonly string[]>> = {
  backlog: [],
  todo: ['todo'],
  in_progress: ['todo', 'in_progress'],
  blocked: ['todo', 'blocked'],
  review: ['todo', 'in_progress', 'review'],
  done: ['todo', 'in_progress', 'review', 'done'],
  cancelled: ['cancelled'],
}
const states = Object.keys(transitions)
const pairs = states.flatMap((from) => states.map((to) => [from, to] as const))

async function taskIn(state: string): Promise<string> {
  const task = await newTask(app)
  await move(app, task, ...ways[state]!)
  return task
}

describe('the status of a task', () => {
  it.each(pairs)('goes from %s to %s exactly as the document allows', async (from, to) => {
    const task_id = await taskIn(from)
    const args = { task_id, status: to, ...(to === 'blocked' ? { blocked_reason: 'waiting' } : {}) }
    if (transitions[from]!.includes(to)) {
      const answer = await app.ask('task_update', args)
      expect(answer).toMatchObject({ task_id, status: to, previous_status: from, updated_by: 'owner' })
    } else if (from === to) {
      expect(await app.ask('task_update', args)).not.toHaveProperty('previous_status')
    } else {
      const allowed = transitions[from]!
      const details = { field: 'status', from, to, allowed }
      await expectFailure(app, 'task_update', args, 'ERR_INVALID_TRANSITION', details)
      expect(await app.ask('task_get', { task_id })).toMatchObject({ status: from })
    }
  })

  it('cannot leave done and cancelled, and everything else about them can still be said', async () => {
    for (const state of ['done', 'cancelled']) {
      const task_id = await taskIn(state)
      const failure = await app.refusal('task_update', { task_id, status: 'todo' })
      expect(failure.message).toContain(`'${state}' is terminal`)
      expect(await app.ask('task_update', { task_id, description: 'said afterwards' })).toMatchObject({ status: state })
    }
  })
})

describe('the reason of a blocked task', () => {
  it('is required when it becomes blocked, and kept until it is not', async () => {
    const task_id = await taskIn('todo')
    const constraint = "required if status='blocked'"
    await expectFailure(app, 'task_update', { task_id, status: 'blocked' }, 'ERR_INVALID_INPUT', {
      field: 'blocked_reason',
      constraint,
    })
    await app.ask('task_update', { task_id, status: 'blocked', blocked_reason: 'no key' })
    expect(await app.ask('task_get', { task_id })).toMatchObject({ status: 'blocked', blocked_reason: 'no key' })
    await app.ask('task_update', { task_id, blocked_reason: 'no key yet' })
    expect(await app.ask('task_get', { task_id })).toMatchObject({ blocked_reason: 'no key yet' })
    await app.ask('task_update', { task_id, status: 'in_progress' })
    expect(await app.ask('task_get', { task_id })).not.toHaveProperty('blocked_reason')
    await expectFailure(app, 'task_update', { task_id, status: 'blocked' }, 'ERR_INVALID_INPUT')
  })

  it('is optional otherwise', async () => {
    const task_id = await taskIn('todo')
    await app.ask('task_update', { task_id, blocked_reason: 'will need a key' })
    expect(await app.ask('task_get', { task_id })).toMatchObject({ status: 'todo', blocked_reason: 'will need a key' })
    expect(await app.ask('task_update', { task_id, status: 'blocked' })).toMatchObject({ status: 'blocked' })
  })
})

describe('task_update', () => {
  it('answers the example of the document in its shape', async () => {
    const task_id = await taskIn('todo')
    const agent = await app.keyCaller({ name: 'agent-alice' })
    const example = { task_id, status: 'in_progress', progress: 45, assignee: 'agent-bob' }
    expect(await app.ask('task_update', example, agent)).toEqual({
      task_id,
      status: 'in_progress',
      progress: 45,
      updated_at: expect.stringMatching(/Z$/),
      updated_by: 'agent-alice',
      previous_status: 'todo',
    })
    expect(await app.ask('task_get', { task_id })).toMatchObject({
      assignee: 'agent-bob',
      created_by: 'owner',
      updated_by: 'agent-alice',
    })
  })

  it('replaces description, priority, assignee and all labels, and leaves the rest', async () => {
    const task_id = await newTask(app, { description: 'old', labels: ['a', 'b'], estimate_hours: 3 })
    const changes = { description: 'new', priority: 'critical', assignee: 'bob', labels: ['c'], progress: 12.5 }
    await app.ask('task_update', { task_id, ...changes })
    expect(await app.ask('task_get', { task_id })).toMatchObject({ ...changes, estimate_hours: 3, title: 'a task' })
    await app.ask('task_update', { task_id, description: '', labels: [] })
    expect(await app.ask('task_get', { task_id })).toMatchObject({ description: '', labels: [], priority: 'critical' })
  })

  const accepted = [{ progress: 0 }, { progress: 100 }, { labels: [] }, { blocked_reason: 'r'.repeat(2000) }]
  it.each(accepted)('accepts the bound %o', async (change) => {
    await app.ask('task_update', { task_id: await newTask(app), ...change })
  })

  const refused: readonly [object, string][] = [
    [{ progress: -1 }, 'progress'],
    [{ progress: 100.1 }, 'progress'],
    [{ progress: '45' }, 'progress'],
    [{ status: 'finished' }, 'status'],
    [{ priority: 'urgent' }, 'priority'],
    [{ description: 'd'.repeat(8001) }, 'description'],
    [{ labels: Array.from({ length: 21 }, String) }, 'labels'],
    [{ assignee: '' }, 'assignee'],
    [{ blocked_reason: '' }, 'blocked_reason'],
    [{ title: 'renamed' }, 'title'],
    [{ task_id: null }, 'task_id'],
  ]
  it.each(refused)('refuses %o', async (change, field) => {
    const args = { task_id: await newTask(app), ...change }
    await expectFailure(app, 'task_update', args, 'ERR_INVALID_INPUT', { field })
  })

  it('does not know a task that is not there', async () => {
    for (const task_id of ['T-9999', 'nonsense', 'Θ-0001', 'T-0001 ']) {
      await expectFailure(app, 'task_update', { task_id, progress: 1 }, 'ERR_TASK_NOT_FOUND', { field: 'task_id' })
    }
  })

  it('warns of a change that looks unfinished, in the words of the document', async () => {
    const task_id = await taskIn('in_progress')
    const unfinished = await app.ask('task_update', { task_id, progress: 100 })
    expect(unfinished['warnings']).toEqual(["Progress set to 100% but status != 'done'"])
    await app.ask('task_update', { task_id, status: 'review', progress: 90 })
    const early = await app.ask('task_update', { task_id, status: 'done' })
    expect(early['warnings']).toEqual(["Status set to 'done' but progress is 90%"])
    const other = await taskIn('review')
    expect(await app.ask('task_update', { task_id: other, status: 'done', progress: 100 })).not.toHaveProperty(
      'warnings',
    )
  })

  it('says so when nothing changes, and records no update', async () => {
    const task_id = await newTask(app)
    const before = await app.ask('task_get', { task_id })
    const answer = await app.ask('task_update', { task_id, priority: 'normal', status: 'backlog' })
    expect(answer['warnings']).toEqual([expect.stringContaining('Nothing changed')])
    expect(await app.ask('task_get', { task_id })).toEqual(before)
    expect((await app.log()).at(-2)).toMatchObject({ tool: 'task_update', outcome: 'ok' })
    expect((await app.log()).at(-2)).not.toHaveProperty('effects')
  })
})
