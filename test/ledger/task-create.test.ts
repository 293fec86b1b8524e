import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Answer, openTestApp, type TestApp } from '../support/app.ts'
import { expectFailure, newTask } from '../support/ledger.ts'

let app: TestApp
beforeAll(async () => {
  app = await openTestApp()
})
afterAll(() => app[Symbol.asyncDispose]())

const ISO_UTC = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/
const good = { title: 'Wire up task_create', project: 'colibri' }

describe('task_create', () => {
  it('answers the example of the document in its shape', async () => {
    const example = {
      title: 'Wire up task_create MCP handler',
      description:
        'Implement P0.3.2 per task-breakdown.md\n\n- Accept TaskCreateInput\n- Validate with Zod\n- Store in tasks table\n- Return TaskCreateOutput',
      project: 'colibri-example',
      priority: 'high',
      labels: ['phase-0', 'mcp', 'backend'],
      estimate_hours: 4,
    }
    const answer = await app.ask('task_create', example)
    expect(answer).toEqual({
      task_id: 'T-0001',
      status: 'backlog',
      created_at: expect.stringMatching(ISO_UTC),
      created_by: 'owner',
      sequence: 1,
    })
    expect(await app.ask('task_get', { task_id: 'T-0001' })).toEqual({
      ...example,
      task_id: 'T-0001',
      status: 'backlog',
      progress: 0,
      assignee: 'unassigned',
      created_at: answer['created_at'],
      updated_at: answer['created_at'],
      created_by: 'owner',
      updated_by: 'owner',
      sequence: 1,
    })
  })

  it('fills in the defaults: normal priority, unassigned, no description, no labels', async () => {
    const task = await app.ask('task_get', { task_id: await newTask(app) })
    expect(task).toMatchObject({ priority: 'normal', assignee: 'unassigned', description: '', labels: [], progress: 0 })
    expect(Object.keys(task).sort()).toEqual(
      [
        ...['assignee', 'created_at', 'created_by', 'description', 'labels', 'priority', 'progress', 'project'],
        ...['sequence', 'status', 'task_id', 'title', 'updated_at', 'updated_by'],
      ].sort(),
    )
  })

  it('is created by the caller, and no argument can say otherwise', async () => {
    const agent = await app.keyCaller({ name: 'agent-alice' })
    expect(await app.ask('task_create', good, agent)).toMatchObject({ created_by: 'agent-alice' })
    await expectFailure(app, 'task_create', { ...good, created_by: 'mallory' }, 'ERR_INVALID_INPUT', {
      field: 'created_by',
    })
  })

  const accepted: readonly [string, object][] = [
    ['title of 1 character', { title: 'a' }],
    ['title of 256 characters', { title: 'a'.repeat(256) }],
    ['description of 0 characters', { description: '' }],
    ['description of 8000 characters', { description: 'd'.repeat(8000) }],
    ...['low', 'normal', 'high', 'critical'].map((priority): [string, object] => [
      `priority ${priority}`,
      { priority },
    ]),
    ['no labels', { labels: [] }],
    ['20 labels', { labels: Array.from({ length: 20 }, (_, index) => `label-${index}`) }],
    ['estimate of 0 hours', { estimate_hours: 0 }],
    ['estimate of 0.25 hours', { estimate_hours: 0.25 }],
    ['estimate of 1000 hours', { estimate_hours: 1000 }],
    ['null in every optional field', { description: null, parent_id: null, labels: null, estimate_hours: null }],
    ['null for the priority, which has a default', { priority: null }],
    ['any text', { title: 'Ω≈ç√ 😀 \u202e "quoted" \\ </script>' }],
  ]

  it.each(accepted)('accepts %s', async (_what, rest) => {
    const taskId = await newTask(app, rest)
    const input = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== null))
    expect(await app.ask('task_get', { task_id: taskId })).toMatchObject(input)
  })

  const refused: readonly [string, object, string][] = [
    ['no title', { title: undefined }, 'title'],
    ['null as title', { title: null }, 'title'],
    ['an empty title', { title: '' }, 'title'],
    ['a title of white space only', { title: ' \t\u00a0' }, 'title'],
    ['a title of 257 characters', { title: 'a'.repeat(257) }, 'title'],
    ['a number as title', { title: 7 }, 'title'],
    ['a description of 8001 characters', { description: 'd'.repeat(8001) }, 'description'],
    ['no project', { project: undefined }, 'project'],
    ['an empty project', { project: '' }, 'project'],
    ['a project that is no slug', { project: 'Two Words' }, 'project'],
    ['a project of 65 characters', { project: 'p'.repeat(65) }, 'project'],
    ['a priority that is none', { priority: 'urgent' }, 'priority'],
    ['21 labels', { labels: Array.from({ length: 21 }, (_, index) => `${index}`) }, 'labels'],
    ['a label that is no text', { labels: ['a', 7] }, 'labels.1'],
    ['an empty label', { labels: [''] }, 'labels.0'],
    ['a negative estimate', { estimate_hours: -1 }, 'estimate_hours'],
    ['an estimate of 1000.5 hours', { estimate_hours: 1000.5 }, 'estimate_hours'],
    ['an estimate as text', { estimate_hours: '4' }, 'estimate_hours'],
    ['an unknown field', { colour: 'red' }, 'colour'],
  ]

  it.each(refused)('refuses %s', async (_what, rest, field) => {
    const before = await app.ask<Answer>('task_list', { limit: 1 })
    await expectFailure(app, 'task_create', { ...good, ...rest }, 'ERR_INVALID_INPUT', { field })
    expect((await app.ask<Answer>('task_list', { limit: 1 }))['total_count']).toBe(before['total_count'])
  })

  it('gives a sub-task its parent, and refuses a parent that is not there', async () => {
    const parent = await newTask(app)
    const child = await newTask(app, { parent_id: parent })
    expect(await app.ask('task_get', { task_id: child })).toMatchObject({ parent_id: parent })
    for (const missing of ['T-9999', 'T-1', 'X-0001', 'T-00001', 'T-0000', ' T-0001', '']) {
      const code = missing === '' ? 'ERR_INVALID_INPUT' : 'ERR_TASK_NOT_FOUND'
      await expectFailure(app, 'task_create', { ...good, parent_id: missing }, code, { field: 'parent_id' })
    }
  })

  it('counts the sequence in each project on its own', async () => {
    const sequences: unknown[] = []
    for (const project of ['red', 'blue', 'red', 'red', 'blue']) {
      sequences.push((await app.ask<Answer>('task_create', { title: 't', project }))['sequence'])
    }
    expect(sequences).toEqual([1, 1, 2, 3, 2])
  })
})

describe('projects', () => {
  it('come into being with their first task', async () => {
    await newTask(app, { project: 'made-by-a-task' })
    const { projects } = await app.ask<{ projects: Answer[] }>('project_list', { limit: 500 })
    expect(projects).toContainEqual({
      project: 'made-by-a-task',
      task_count: 1,
      created_at: expect.stringMatching(ISO_UTC),
      created_by: 'owner',
    })
  })

  it('can be created before, once', async () => {
    expect(await app.ask('project_create', { project: 'planned' })).toMatchObject({ project: 'planned', task_count: 0 })
    await expectFailure(app, 'project_create', { project: 'planned' }, 'ERR_ALREADY_EXISTS', { field: 'project' })
    expect(await app.ask('task_create', { title: 't', project: 'planned' })).toMatchObject({ sequence: 1 })
  })

  it('must be created before when the configuration is strict', async () => {
    await using strict = await openTestApp({ config: { 'ledger.strict_projects': true } })
    await expectFailure(strict, 'task_create', good, 'ERR_PROJECT_NOT_FOUND', { field: 'project' })
    expect(await strict.ask('project_list')).toMatchObject({ projects: [], total_count: 0 })
    await strict.ask('project_create', { project: good.project })
    expect(await strict.ask('task_create', good)).toMatchObject({ task_id: 'T-0001', sequence: 1 })
  })

  it('are listed by pages', async () => {
    await using own = await openTestApp()
    for (const project of ['c', 'a', 'b']) await own.ask('project_create', { project })
    const page = (offset: number) => own.ask<{ projects: Answer[] }>('project_list', { limit: 2, offset })
    const [first, second] = [await page(0), await page(2)]
    expect([...first.projects, ...second.projects].map(({ project }) => project)).toEqual(['a', 'b', 'c'])
    expect(first).toMatchObject({ total_count: 3, offset: 0, limit: 2 })
  })
})
