import { describe, expect, it } from 'vitest'
import { type Answer, openTestApp } from '../support/app.ts'
import { documentHash, newTask, type Thought } from '../support/ledger.ts'

const numbered = (prefix: string, count: number): string[] =>
  Array.from({ length: count }, (_, index) => `${prefix}-${String(index + 1).padStart(4, '0')}`)

describe('public ids', () => {
  it('have no gap and no double when many call at once and some are refused', async () => {
    await using app = await openTestApp()
    await newTask(app)
    const wave = Array.from({ length: 300 }, (_, index) => index)
    const answers = await Promise.all(
      wave.flatMap((index) => [
        app.call('task_create', {
          title: `t${index}`,
          project: `p${index % 3}`,
          parent_id: index % 7 ? undefined : 'T-9999',
        }),
        app.call('thought_record', { task_id: index % 5 ? 'T-0001' : 'T-9999', type: 'risk', content: `c${index}` }),
        app.call('audit_session_start', { task_id: 'T-0001', auditor_id: index % 11 ? 'ann' : '' }),
      ]),
    )
    const ids = (field: string): string[] =>
      answers.flatMap((answer) => (JSON.parse(answer.json) as Answer)[field] ?? []).map(String)
    expect(answers.filter((answer) => answer.isError)).toHaveLength(43 + 60 + 28)
    const created = answers.flatMap((answer, index) =>
      index % 3 === 0 && !answer.isError ? (JSON.parse(answer.json) as { task_id: string }).task_id : [],
    )
    expect(['T-0001', ...created.sort()]).toEqual(numbered('T', 258))
    expect(ids('thought_id').sort()).toEqual(numbered('Θ', 240))
    expect(ids('session_id').sort()).toEqual(numbered('A', 272))
    for (const project of ['p0', 'p1', 'p2']) {
      const { tasks } = await app.ask<{ tasks: { task_id: string }[] }>('task_list', { project, limit: 500 })
      const sequences = await Promise.all(
        tasks.map(async ({ task_id }) => (await app.ask<Answer>('task_get', { task_id }))['sequence'] as number),
      )
      expect(sequences.sort((a, b) => a - b)).toEqual(tasks.map((_, index) => index + 1))
    }
    const { thoughts } = await app.ask<{ thoughts: Thought[] }>('thought_record_list', {
      task_id: 'T-0001',
      limit: 500,
      verify_chain: true,
    })
    expect(thoughts.map(({ chain_position }) => chain_position)).toEqual(thoughts.map((_, index) => index + 1))
    for (const [index, thought] of thoughts.entries()) {
      expect(thought.previous_hash).toBe(index === 0 ? null : thoughts[index - 1]!.hash)
      expect(thought.hash).toBe(documentHash(thought))
    }
  })

  it('begin again in each tenant, and go on after a restart', async () => {
    let app = await openTestApp()
    const [red, blue] = [await app.keyCaller({ tenant: 'red' }), await app.keyCaller({ tenant: 'blue' })]
    const create = async (caller: typeof red) =>
      (await app.ask<Answer>('task_create', { title: 't', project: 'p' }, caller))['task_id']
    expect([await create(red), await create(red), await create(blue), await create(red)]).toEqual([
      ...['T-0001', 'T-0002', 'T-0001', 'T-0003'],
    ])
    const think = (task_id: string) => app.ask('thought_record', { task_id, type: 'risk', content: 'c' }, blue)
    expect(await think('T-0001')).toMatchObject({ thought_id: 'Θ-0001', chain_position: 1, previous_hash: null })
    app = await app.restart()
    expect([await create(red), await create(blue)]).toEqual(['T-0004', 'T-0002'])
    await app[Symbol.asyncDispose]()
  })

  it('grow beyond four digits', async () => {
    await using app = await openTestApp()
    await newTask(app)
    app.behindItsBack((db) => db.exec('UPDATE log_heads SET task_count = 9999'))
    expect(await newTask(app)).toBe('T-10000')
    expect(await app.ask('task_get', { task_id: 'T-10000' })).toMatchObject({ task_id: 'T-10000' })
  })
})
