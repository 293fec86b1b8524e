import { describe, expect, onTestFinished, test } from 'vitest'
import { createToolInvoker } from '../../src/app/wiring/open-tool-invoker.ts'
import { identityOf, LOCAL_TENANT, localOwner, type Principal } from '../../src/contract/principal.ts'
import { openTestApp } from '../support/app.ts'
import { dialects, openEmpty } from '../support/databases.ts'
import { openEngine } from '../support/engine.ts'

const ann: Principal = { ...localOwner, kind: 'key', keyId: 'ann', actor: 'ann' }

describe.each(dialects)('a run whose starter is gone, over %s', (dialect) => {
  async function open() {
    const database = await openEmpty(dialect)
    const gone = new Set<string>()
    const engine = openEngine(database, { isRevoked: async (_tx, _tenant, owner) => gone.has(owner) })
    onTestFinished(async () => {
      await engine.close()
      await database.close()
    })
    return { engine, gone }
  }
  const done = async () => ({ status: 'completed', output: null }) as const

  test('does no further step, fails, and is tidied up', async () => {
    const { engine, gone } = await open()
    const tidied: string[] = []
    engine.register(
      'execution',
      async (_, steps) => {
        await steps.once('first', async () => {
          gone.add('key:ann')
          return { result: 1 }
        })
        await steps.once('second', async () => ({ result: 2 }), { intent: true })
        return await done()
      },
      async (_, steps, status) => {
        await steps.once('tidy', async () => ({ result: tidied.push(status) }))
      },
    )
    const { id } = await engine.run({ principal: ann })
    expect(await engine.end(id)).toMatchObject({ status: 'failed', error: { code: 'ERR_STARTER_GONE' } })
    expect((await engine.journal(id)).map(({ key }) => key)).not.toContain('second')
    expect(tidied).toEqual(['failed'])
  })

  test('is stopped in the middle of a step, and what runs below it as well', async () => {
    const { engine, gone } = await open()
    const began = Promise.withResolvers<void>()
    engine.register('execution', async (run, steps) => {
      if (run.depth === 0) await steps.child('child', { ...sample, input: null })
      await steps.once('long', async () => {
        began.resolve()
        await new Promise((_, reject) => steps.signal.addEventListener('abort', () => reject(new Error('stopped'))))
        return { result: null }
      })
      return await done()
    })
    const { id } = await engine.run({ principal: ann })
    await began.promise
    gone.add('key:ann')
    await engine.ownerRevoked(LOCAL_TENANT, 'key:ann')
    expect(await engine.end(id)).toMatchObject({ status: 'failed', error: { code: 'ERR_STARTER_GONE' } })
    const spawned = (await engine.journal(id)).find(({ type }) => type === 'child_execution_spawned')!
    const { run_id } = spawned.payload as { run_id: string }
    expect(await engine.end(run_id)).toMatchObject({ status: 'failed', error: { code: 'ERR_STARTER_GONE' } })
  })

  test('ends although it only waits, also when nobody was there to see its starter go', async () => {
    const { engine, gone } = await open()
    engine.register('execution', async (_, steps) => {
      await steps.wait('approval', { details: null })
      return await done()
    })
    const first = await engine.run({ principal: ann })
    const second = await engine.run()
    await engine.until(first.id, ({ waitingFor }) => waitingFor !== null)
    await engine.until(second.id, ({ waitingFor }) => waitingFor !== null)
    gone.add('key:ann')
    await engine.begin()
    expect(await engine.end(first.id)).toMatchObject({ status: 'failed', error: { code: 'ERR_STARTER_GONE' } })
    expect(await engine.until(second.id, () => true)).toMatchObject({ status: 'running', waitingFor: 'approval' })
  })
})

const sample = { kind: 'execution', subjectId: 'a', subjectName: 'a', subjectVersion: '1.0.0' } as const

test('a tool is not called for a revoked owner, but what they have can be removed', async () => {
  await using app = await openTestApp()
  // The key is in no store: a call that takes long enough for that to be noticed is cancelled.
  await app.app.catalog.find('workspace_destroy')!.load()
  const invoker = createToolInvoker(app.app.views, app.config.mode, async (principal) =>
    identityOf(principal) === 'key:ann' ? undefined : principal,
  )
  invoker.connect((caller, tool, args, options) => app.app.host.call(caller, tool, args, options))
  const options = { signal: new AbortController().signal, transport: 'engine' } as const
  const agent: Principal = { ...localOwner, kind: 'agent', actor: 'agent:x', onBehalfOf: 'key:ann' }
  for (const principal of [ann, agent]) {
    expect(await invoker.call(principal, 'task_list', {}, options)).toMatchObject({ code: 'ERR_STARTER_GONE' })
    const destroyed = await invoker.call(principal, 'workspace_destroy', { workspace_id: 'none' }, options)
    expect(destroyed).toMatchObject({ code: 'ERR_WORKSPACE_NOT_FOUND' })
    const byAgent = await invoker.call(
      principal,
      'workspace_destroy',
      { workspace_id: 'none' },
      { ...options, transport: 'agent' },
    )
    expect(byAgent).toMatchObject({ code: 'ERR_STARTER_GONE' })
  }
  expect(await invoker.call(localOwner, 'task_list', {}, options)).toMatchObject({ isError: false })
})
