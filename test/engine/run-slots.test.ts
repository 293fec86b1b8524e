import { describe, expect, onTestFinished, test } from 'vitest'
import type { Database } from '../../src/contract/database.ts'
import { LOCAL_TENANT } from '../../src/contract/principal.ts'
import type { RunStore } from '../../src/engine/ports.ts'
import type { Json } from '../../src/kernel/canonical-json.ts'
import { sqlRunStore } from '../../src/stores/sql/run-store.ts'
import { dialects, openEmpty } from '../support/databases.ts'
import { type EngineRequest, openEngine, type TestEngine } from '../support/engine.ts'

const done = (output: Json) => ({ status: 'completed', output }) as const

/** Which runs are at work at once, and which wait for a slot. */
describe.each(dialects)('over %s', (dialect) => {
  async function open(request: EngineRequest = {}): Promise<{ engine: TestEngine; database: Database }> {
    const database = await openEmpty(dialect)
    const engine = openEngine(database, request)
    onTestFinished(async () => {
      await engine.close()
      await database.close()
    })
    return { engine, database }
  }

  test('so many runs are at work at once, and the others are pending', async () => {
    const { engine, database } = await open({ concurrentMax: 2, pendingMax: 3 })
    const gate = Promise.withResolvers<void>()
    let atWork = 0
    let most = 0
    engine.register('execution', async (_, steps) => {
      await steps.once('work', async () => {
        most = Math.max(most, ++atWork)
        await gate.promise
        atWork--
        return { result: null }
      })
      return done(null)
    })
    const ids: string[] = []
    for (let index = 0; index < 5; index++) ids.push((await engine.run()).id)
    await expect.poll(() => atWork).toBe(2)
    const last = await engine.find(database.read, LOCAL_TENANT, ids[4]!)
    expect(last?.status).toBe('pending')
    await expect(engine.run()).rejects.toMatchObject({ code: 'ERR_QUOTA_EXCEEDED', details: { pending_max: 3 } })
    ids.push((await engine.run({ owner: 'key:other' })).id)
    gate.resolve()
    for (const id of ids) expect((await engine.end(id)).status).toBe('completed')
    expect(most).toBe(2)
  })

  test('runs that were just started count as pending, except those that get a slot', async () => {
    const late = Promise.withResolvers<void>()
    const store: RunStore = {
      ...sqlRunStore,
      async findRun(tx, ...rest) {
        if (tx === database.read) await late.promise
        return await sqlRunStore.findRun(tx, ...rest)
      },
    }
    const { engine, database } = await open({ concurrentMax: 2, pendingMax: 3, store })
    onTestFinished(() => late.resolve())
    engine.register('execution', async () => done(null))
    const ids: string[] = []
    for (let index = 0; index < 5; index++) ids.push((await engine.run()).id)
    await expect(engine.run()).rejects.toMatchObject({ code: 'ERR_QUOTA_EXCEEDED' })
    ids.push((await engine.run({ owner: 'key:other' })).id)
    late.resolve()
    for (const id of ids) expect((await engine.end(id)).status).toBe('completed')
    expect((await engine.end((await engine.run()).id)).status).toBe('completed')
  })

  test('a caller does not wait for what another has started', async () => {
    const { engine } = await open({ concurrentMax: 3 })
    const gates = new Map<string, () => void>()
    const started: string[] = []
    engine.register('execution', async (run, steps) => {
      await steps.once('work', async () => {
        started.push(run.owner)
        await new Promise<void>((resolve) => gates.set(run.id, resolve))
        return { result: null }
      })
      return done(null)
    })
    const start = (owner: string) => engine.run({ owner })
    const anns = [await start('key:ann'), await start('key:ann'), await start('key:ann'), await start('key:ann')]
    await expect.poll(() => started).toEqual(['key:ann', 'key:ann'])
    const bob = await start('key:bob')
    await expect.poll(() => started).toEqual(['key:ann', 'key:ann', 'key:bob'])
    const carl = await start('key:carl')
    gates.get(anns[0]!.id)!()
    // Ann asked before Carl, and has a place already.
    await expect.poll(() => started.at(-1)).toBe('key:carl')
    for (const { id } of [anns[1]!, bob, carl, anns[2]!, anns[3]!]) {
      await expect.poll(() => gates.has(id)).toBe(true)
      gates.get(id)!()
    }
    for (const { id } of anns) expect((await engine.end(id)).status).toBe('completed')
    expect(started).toHaveLength(6)
  })

  test('the local person may take every place', async () => {
    const { engine } = await open({ concurrentMax: 2 })
    const gate = Promise.withResolvers<void>()
    let atWork = 0
    engine.register('execution', async (_, steps) => {
      await steps.once('work', async () => {
        atWork++
        await gate.promise
        return { result: null }
      })
      return done(null)
    })
    const runs = [await engine.run({ owner: 'owner' }), await engine.run({ owner: 'owner' })]
    await expect.poll(() => atWork).toBe(2)
    gate.resolve()
    for (const { id } of runs) await engine.end(id)
  })
})
