import { createHash } from 'node:crypto'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { movableClock, openTestApp, type TestApp } from '../support/app.ts'
import { documentHash, expectFailure, newTask, type Thought, think } from '../support/ledger.ts'

let app: TestApp
beforeEach(async () => {
  app = await openTestApp()
  await newTask(app)
})
afterEach(() => app[Symbol.asyncDispose]())

const good = { task_id: 'T-0001', type: 'reflection', content: 'Completed.' }
type List = { thought_count: number; thoughts: (Thought & Record<string, unknown>)[]; chain_valid?: boolean }
const list = (args: object = {}) => app.ask<List>('thought_record_list', args)

describe('thought_record', () => {
  it('answers the example of the document in its shape', async () => {
    const example = {
      task_id: 'T-0001',
      type: 'reflection',
      content: 'Completed task_create MCP handler implementation. All tests passing.',
      branch: 'feature/task-create',
      commit_sha: 'a3f7d9b2c',
      tests_run: ['task_create.test.ts'],
      blockers: [],
    }
    const agent = await app.keyCaller({ name: 'agent-bob' })
    const answer = await app.ask<Thought>('thought_record', example, agent)
    expect(answer).toEqual({
      thought_id: 'Θ-0001',
      task_id: 'T-0001',
      type: 'reflection',
      hash: expect.stringMatching(/^[0-9a-f]{64}$/),
      previous_hash: null,
      recorded_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/),
      recorded_by: 'agent-bob',
      chain_position: 1,
    })
    expect((await list({ task_id: 'T-0001' })).thoughts).toEqual([{ ...answer, ...example }])
  })

  it('hashes exactly what the document writes, and nothing else', async () => {
    await using own = await openTestApp({ clock: movableClock(Date.UTC(2026, 3, 8, 23, 15)) })
    await newTask(own)
    const first = await think(own, 'T-0001', 'ä "quoted" \\ \n 😀', { type: 'risk' })
    const text =
      '{"task_id":"T-0001","type":"risk","content":"ä \\"quoted\\" \\\\ \\n 😀","previous_hash":null,"recorded_at":"2026-04-08T23:15:00.000Z","recorded_by":"owner"}'
    expect(first.hash).toBe(createHash('sha256').update(text, 'utf8').digest('hex'))
    const second = await think(own, 'T-0001', 'x', { branch: 'main', metadata: { any: 1 } })
    expect(second.previous_hash).toBe(first.hash)
    expect(second.hash).toBe(documentHash({ ...second, content: 'x' }))
  })

  it('links the thoughts of each task on their own, whatever comes between', async () => {
    await newTask(app)
    const chains = new Map<string, Thought[]>([
      ['T-0001', []],
      ['T-0002', []],
    ])
    for (const task of ['T-0001', 'T-0002', 'T-0002', 'T-0001', 'T-0001', 'T-0002']) {
      chains.get(task)!.push(await think(app, task, `for ${task}`))
      await app.ask('task_update', { task_id: task, progress: chains.get(task)!.length })
    }
    for (const chain of chains.values()) {
      for (const [index, thought] of chain.entries()) {
        expect(thought).toMatchObject({
          chain_position: index + 1,
          previous_hash: index === 0 ? null : chain[index - 1]!.hash,
          hash: documentHash(thought),
        })
      }
    }
  })

  const accepted: readonly object[] = [
    ...['reflection', 'decision', 'discovery', 'risk', 'blockers'].map((type) => ({ type })),
    { content: 'c' },
    { content: 'c'.repeat(5000) },
    { branch: '', commit_sha: '' },
    { tests_run: [], blockers: [] },
    { metadata: {} },
    { metadata: { deep: [{ a: [null, true, 1.5, 'x'] }], ключ: '値', '10': 1, '9': 2, __proto__x: 1 } },
    { branch: null, metadata: null, tests_run: null },
  ]
  it.each(accepted)('accepts and keeps %o', async (rest) => {
    await app.ask('thought_record', { ...good, ...rest })
    const retained = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== null))
    expect((await list({ verify_chain: true, task_id: 'T-0001' })).thoughts[0]).toMatchObject(retained)
    expect(await list({ verify_chain: true, task_id: 'T-0001' })).toMatchObject({ chain_valid: true })
  })

  const refused: readonly [object, string][] = [
    [{ type: 'idea' }, 'type'],
    [{ type: undefined }, 'type'],
    [{ content: '' }, 'content'],
    [{ content: 'c'.repeat(5001) }, 'content'],
    [{ content: ' \n\t ' }, 'content'],
    [{ content: undefined }, 'content'],
    [{ task_id: undefined }, 'task_id'],
    [{ tests_run: 'all' }, 'tests_run'],
    [{ blockers: [1] }, 'blockers.0'],
    [{ metadata: [] }, 'metadata'],
    [{ metadata: { big: 'x'.repeat(65_536) } }, 'metadata'],
    [{ metadata: JSON.parse('{"a":{"__proto__":1}}') }, 'metadata.a.__proto__'],
    [{ recorded_by: 'mallory' }, 'recorded_by'],
    [{ previous_hash: 'x' }, 'previous_hash'],
  ]
  it.each(refused)('refuses %o', async (rest, field) => {
    await expectFailure(app, 'thought_record', { ...good, ...rest }, 'ERR_INVALID_INPUT', { field })
    expect(await list()).toMatchObject({ thought_count: 0 })
  })

  it('does not know a task that is not there', async () => {
    await expectFailure(app, 'thought_record', { ...good, task_id: 'T-0002' }, 'ERR_TASK_NOT_FOUND', {
      field: 'task_id',
    })
  })
})

describe('thought_record_list', () => {
  beforeEach(async () => {
    await newTask(app)
    for (let index = 1; index <= 5; index++) {
      await think(app, 'T-0001', `one ${index}`, { type: index % 2 ? 'decision' : 'risk' })
      await think(app, 'T-0002', `two ${index}`)
    }
  })
  const contents = async (args: object) => (await list(args)).thoughts.map(({ content }) => content)

  it('answers what the document says', async () => {
    const answer = await list({ task_id: 'T-0001', verify_chain: true })
    expect(answer).toMatchObject({ task_id: 'T-0001', thought_count: 5, chain_valid: true })
    expect(answer).not.toHaveProperty('session_id')
    expect(answer).not.toHaveProperty('invalid_links')
    expect(Object.keys(answer.thoughts[0]!).sort()).toEqual([
      ...['chain_position', 'content', 'hash', 'previous_hash', 'recorded_at', 'recorded_by'],
      ...['task_id', 'thought_id', 'type'],
    ])
    expect(await list({ task_id: 'T-0001' })).not.toHaveProperty('chain_valid')
  })

  it('filters by task, by session and by type, in the order in which they were recorded', async () => {
    const all = ['one 1', 'two 1', 'one 2', 'two 2', 'one 3', 'two 3', 'one 4', 'two 4', 'one 5', 'two 5']
    expect(await contents({})).toEqual(all)
    expect(await contents({ task_id: 'T-0002' })).toEqual(all.filter((text) => text.startsWith('two')))
    expect(await contents({ task_id: 'T-0001', type: 'risk' })).toEqual(['one 2', 'one 4'])
    expect(await contents({ type: 'discovery' })).toEqual([])
    const { session_id } = await app.ask('audit_session_start', { task_id: 'T-0001', auditor_id: 'ann' })
    await think(app, 'T-0001', 'in the session')
    await think(app, 'T-0002', 'elsewhere')
    expect(await contents({ session_id })).toEqual(['in the session'])
    expect(await contents({ session_id, task_id: 'T-0002' })).toEqual([])
    expect(await list({ session_id, verify_chain: true })).toMatchObject({ session_id, chain_valid: true })
  })

  it('gives pages; the count is of all', async () => {
    expect(await list({ limit: 3, offset: 3 })).toMatchObject({ thought_count: 10 })
    expect(await contents({ limit: 3, offset: 3 })).toEqual(['two 2', 'one 3', 'two 3'])
    expect(await contents({ limit: 500, offset: 10 })).toEqual([])
    for (const limit of [0, 501]) {
      await expectFailure(app, 'thought_record_list', { limit }, 'ERR_INVALID_INPUT', { field: 'limit' })
    }
  })

  it('does not know what is not there', async () => {
    await expectFailure(app, 'thought_record_list', { task_id: 'T-9999' }, 'ERR_TASK_NOT_FOUND', { field: 'task_id' })
    await expectFailure(app, 'thought_record_list', { session_id: 'A-9999' }, 'ERR_SESSION_NOT_FOUND', {
      field: 'session_id',
    })
    await expectFailure(app, 'thought_record_list', { type: 'idea' }, 'ERR_INVALID_INPUT', { field: 'type' })
  })
})
