import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { openTestApp, ownerCaller, type TestApp } from '../support/app.ts'
import { newTask } from '../support/ledger.ts'

let app: TestApp
beforeEach(async () => {
  app = await openTestApp()
  await newTask(app)
})
afterEach(() => app[Symbol.asyncDispose]())

const thought = { task_id: 'T-0001', type: 'risk', content: 'x' }

describe('a call that is cancelled', () => {
  it('before it began changes nothing, and is recorded as cancelled', async () => {
    const signal = AbortSignal.abort()
    for (const [name, args] of [
      ['thought_record', thought],
      ['task_list', {}],
    ] as const) {
      const answer = await app.call(name, args, ownerCaller, { signal })
      expect(answer.failure).toMatchObject({ code: 'ERR_CANCELLED' })
      expect((await app.log()).at(-1)).toMatchObject({ tool: name, outcome: 'cancelled', code: 'ERR_CANCELLED' })
    }
    expect(await app.ask('thought_record_list')).toMatchObject({ thought_count: 0 })
  })

  it('while it waits for the disk changes nothing, and those beside it are not touched', async () => {
    const abort = new AbortController()
    const before = (await app.log()).length
    const calls = Array.from({ length: 10 }, (_, index) =>
      app.call('thought_record', thought, ownerCaller, index % 2 ? { signal: abort.signal } : {}),
    )
    abort.abort()
    const codes = (await Promise.all(calls)).map((answer) => answer.failure?.code ?? 'ok')
    expect(codes).toEqual(Array.from({ length: 10 }, (_, index) => (index % 2 ? 'ERR_CANCELLED' : 'ok')))
    expect(await app.ask('thought_record_list', { verify_chain: true })).toMatchObject({
      thought_count: 5,
      chain_valid: true,
    })
    const outcomes = (await app.log()).slice(before, before + 10).map(({ outcome }) => outcome)
    expect(outcomes.filter((outcome) => outcome === 'cancelled')).toHaveLength(5)
    expect(outcomes.filter((outcome) => outcome === 'ok')).toHaveLength(5)
  })

  it('after it was answered changes nothing any more', async () => {
    const abort = new AbortController()
    const answer = await app.call('thought_record', thought, ownerCaller, { signal: abort.signal })
    abort.abort()
    expect(answer.isError).toBe(false)
    expect(await app.ask('thought_record_list')).toMatchObject({ thought_count: 1 })
  })
})
