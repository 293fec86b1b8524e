import { describe, expect, onTestFinished, test } from 'vitest'
import { AppError } from '../../src/contract/app-error.ts'
import type { Database } from '../../src/contract/database.ts'
import { limits } from '../../src/contract/limits.ts'
import { LOCAL_TENANT, tenantId } from '../../src/contract/principal.ts'
import type { Program, RunStore, Steps } from '../../src/engine/ports.ts'
import { replay } from '../../src/engine/replay.ts'
import type { Json } from '../../src/kernel/canonical-json.ts'
import { systemClock } from '../../src/kernel/clock.ts'
import { sqlRunStore } from '../../src/stores/sql/run-store.ts'
import { dialects, newTestDatabase, openEmpty } from '../support/databases.ts'
import { type EngineRequest, openEngine, type TestEngine } from '../support/engine.ts'

const done = (output: Json) => ({ status: 'completed', output }) as const

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

  test('a run does its steps in order and ends with its output', async () => {
    const { engine } = await open()
    engine.register('execution', async (run, steps) => {
      steps.setPosition({ iteration: 1 })
      steps.note({ type: 'iteration_started', payload: { number: 1 } })
      const one = await steps.once('one', async () => ({ result: 1, events: [{ type: 'beside' }] }))
      const two = await steps.once('two', async () => ({ result: one + 1 }), { type: 'second' })
      return done({ two, input: run.input })
    })
    const { id, status } = await engine.run({ input: { a: 'é' } })
    expect(status).toBe('pending')
    expect(await engine.end(id)).toMatchObject({
      status: 'completed',
      output: { two: 2, input: { a: 'é' } },
      iteration: 1,
      lastSequence: 6,
    })
    const journal = await engine.journal(id)
    expect(journal.map(({ type }) => type)).toEqual([
      'execution_started',
      'iteration_started',
      'step_completed',
      'beside',
      'second',
      'execution_completed',
    ])
    expect(journal.map(({ sequence }) => sequence)).toEqual([1, 2, 3, 4, 5, 6])
  })

  test('a failure of ours is recorded with its step, and the program may go on', async () => {
    const { engine } = await open()
    engine.register('execution', async (_, steps) => {
      const fail = async () => {
        throw new AppError('ERR_NOT_FOUND', 'nothing there', { field: 'x' })
      }
      const seen = await steps.once('fails', fail).catch((error: AppError) => error.code)
      return done(seen as string)
    })
    const { id } = await engine.run()
    expect(await engine.end(id)).toMatchObject({ status: 'completed', output: 'ERR_NOT_FOUND' })
  })

  test('a program that throws makes the run fail; what is not ours is told by a reference only', async () => {
    const { engine } = await open()
    engine.register('execution', async (run) => {
      if (run.input === 'ours') throw new AppError('ERR_BUSY', 'no room')
      throw new Error('a secret')
    })
    const ours = await engine.run({ input: 'ours' })
    const other = await engine.run({ input: 'other' })
    expect(await engine.end(ours.id)).toMatchObject({ status: 'failed', error: { code: 'ERR_BUSY' } })
    const failed = await engine.end(other.id)
    expect(failed.error).toMatchObject({ code: 'ERR_INTERNAL', details: { reference: other.id } })
    expect(JSON.stringify(failed)).not.toContain('secret')
  })

  test('a wait parks the run until a signal, once', async () => {
    const { engine, database } = await open({ concurrentMax: 1 })
    let passes = 0
    engine.register('execution', async (_, steps) => {
      passes++
      return done(await steps.wait('approval', { details: { question: 'go on?' } }))
    })
    const { id } = await engine.run()
    await engine.until(id, (run) => run.waitingFor === 'approval')
    // The only place is free while the first run waits.
    const second = await engine.run()
    await engine.until(second.id, (run) => run.waitingFor === 'approval')
    expect(await engine.call((call) => engine.signal(call, id, { yes: true }, 'another'))).toBe(false)
    expect(await engine.call((call) => engine.signal(call, id, { yes: true }, 'approval'))).toBe(true)
    expect(await engine.end(id)).toMatchObject({ output: { kind: 'signal', payload: { yes: true } } })
    expect(await engine.call((call) => engine.signal(call, id, {}, 'approval'))).toBe(false)
    expect(passes).toBeLessThanOrEqual(3)
    expect((await engine.find(database.read, LOCAL_TENANT, second.id))?.status).toBe('running')
  })

  test('a wait ends at its time', async () => {
    const { engine } = await open()
    engine.register('execution', async (_, steps) => {
      const untilMs = steps.nowMs() + 20
      return done(await steps.wait('pause', { untilMs, details: null }))
    })
    const { id } = await engine.run()
    expect(await engine.end(id)).toMatchObject({ output: { kind: 'timeout' } })
  })

  test('a run below another is awaited, and its outcome recorded', async () => {
    const { engine } = await open({ concurrentMax: 1 })
    engine.register('execution', async (run, steps) => {
      if (run.depth === 2) return done('deep')
      const below = await steps.child('child', { ...template, input: run.depth + 1 })
      return done({ below: below.output })
    })
    const { id } = await engine.run()
    expect(await engine.end(id)).toMatchObject({ output: { below: { below: 'deep' } } })
  })

  test('levels of runs are bounded, and the failure says so', async () => {
    const { engine } = await open()
    engine.register('execution', async (_, steps) => {
      const { output, error } = await steps.child('child', template)
      return done({ output, error: error as Json })
    })
    const { id } = await engine.run()
    expect(JSON.stringify(await engine.end(id))).toContain('ERR_DEPTH_EXCEEDED')
  })

  test('a run below that is refused is a step that failed, and what was told before is in the journal', async () => {
    const { engine } = await open()
    const program: Program = async (run, steps) => {
      if (run.depth < limits.runDepthMax) return done((await steps.child('child', template)).output)
      steps.note({ type: 'told' })
      const refused = await steps.child('child', template).catch((error: AppError) => error.code)
      return done({ id: run.id, refused } as Json)
    }
    engine.register('execution', program)
    const { output } = await engine.end((await engine.run()).id)
    const { id, refused } = output as { id: string; refused: string }
    expect(refused).toBe('ERR_DEPTH_EXCEEDED')
    const journal = await engine.journal(id)
    expect(journal.map(({ type }) => type)).toEqual(['execution_started', 'told', 'step_failed', 'execution_completed'])
    const replayed = await replay({ program, finalizer: undefined }, await engine.end(id), journal)
    expect(replayed).toMatchObject({ difference: null, end: { status: 'completed' } })
  })

  test('cancelling stops the work, all that runs below, and lets the ending tidy up', async () => {
    const { engine } = await open()
    const tidied: string[] = []
    const began = Promise.withResolvers<void>()
    engine.register(
      'execution',
      async (run, steps) => {
        if (run.depth === 0) return done((await steps.child('child', template)).status)
        await steps.once('long', () => forAsLongAs(steps, began.resolve))
        return done('never')
      },
      async (run, steps, status) => {
        await steps.once('tidy', async () => ({ result: tidied.push(`${run.depth} ${status}`) }))
      },
    )
    const { id } = await engine.run()
    await began.promise
    expect(await engine.call((call) => engine.cancel(call, id))).toBe(true)
    expect(await engine.end(id)).toMatchObject({ status: 'cancelled' })
    const child = (await engine.journal(id)).find(({ type }) => type === 'child_execution_spawned')!
    expect(await engine.end((child.payload as { run_id: string }).run_id)).toMatchObject({ status: 'cancelled' })
    expect(tidied.sort()).toEqual(['0 cancelled', '1 cancelled'])
    expect(await engine.call((call) => engine.cancel(call, id))).toBe(false)
  })

  test('the end of the server while a run is about to wait is no error of its own', async () => {
    const database = await openEmpty(dialect)
    onTestFinished(() => database.close())
    const reached = Promise.withResolvers<void>()
    const released = Promise.withResolvers<void>()
    let reads = 0
    const store: RunStore = {
      ...sqlRunStore,
      async listEvents(tx, ...rest) {
        // The first read is that of the beginning, the second is made by the wait.
        if (++reads === 2) {
          reached.resolve()
          await released.promise
        }
        return await sqlRunStore.listEvents(tx, ...rest)
      },
    }
    const engine = openEngine(database, { store })
    engine.register('execution', async (_, steps) => {
      await steps.wait('go', { details: {} })
      return { status: 'completed', output: null }
    })
    const { id } = await engine.run()
    await reached.promise
    const closed = engine.close()
    await new Promise(setImmediate)
    released.resolve()
    await closed
    const run = await engine.find(database.read, LOCAL_TENANT, id)
    expect(run).toMatchObject({ status: 'running', waitingFor: 'go' })
  })

  test('a run is cancelled though only the record of its last step shows it', async () => {
    const working = Promise.withResolvers<void>()
    const released = Promise.withResolvers<void>()
    let isHeld = false
    const held = Promise.withResolvers<void>()
    const store: RunStore = {
      ...sqlRunStore,
      async findRun(tx, ...rest) {
        const run = await sqlRunStore.findRun(tx, ...rest)
        // The engine, which looks at the run because of the request, is late.
        if (isHeld && run?.cancelRequested === true && run.endedAtMs === null && tx === database.read) {
          await held.promise
        }
        return run
      },
    }
    const { engine, database } = await open({ store })
    onTestFinished(() => held.resolve())
    engine.register('execution', async (_, steps) => {
      await steps.once('long', async () => {
        working.resolve()
        await released.promise
        return { result: null }
      })
      return done('the program itself does not know')
    })
    const { id } = await engine.run()
    await working.promise
    isHeld = true
    expect(await engine.call((call) => engine.cancel(call, id))).toBe(true)
    released.resolve()
    const untilMs = systemClock.nowMs() + 60_000
    const ended = engine.waitForEnd(LOCAL_TENANT, id, { untilMs, signal: new AbortController().signal })
    await expect
      .poll(async () => (await database.write(LOCAL_TENANT, (tx) => sqlRunStore.findRun(tx, LOCAL_TENANT, id)))?.status)
      .toBe('cancelled')
    held.resolve()
    expect(await ended).toMatchObject({ status: 'cancelled', output: null })
  })

  test('a waiting run is cancelled too', async () => {
    const { engine } = await open()
    engine.register('execution', async (_, steps) => done(await steps.wait('for ever', { details: null })))
    const { id } = await engine.run()
    await engine.until(id, (run) => run.waitingFor !== null)
    await engine.call((call) => engine.cancel(call, id))
    expect(await engine.end(id)).toMatchObject({ status: 'cancelled', waitingFor: null })
  })

  test('events are sent to every subscriber, from where they left off', async () => {
    const { engine } = await open()
    engine.register('execution', async (_, steps) => {
      await steps.once('a', async () => ({ result: 'a' }))
      await steps.wait('w', { details: null })
      return done('b')
    })
    const { id } = await engine.run()
    const { signal } = new AbortController()
    const seen: number[] = []
    for await (const event of engine.subscribe(LOCAL_TENANT, id, { fromSequence: 1, signal })) {
      seen.push(event.sequence)
      if (event.type === 'wait_began') await engine.call((call) => engine.signal(call, id, null, 'w'))
    }
    expect(seen).toEqual([2, 3, 4, 5])
  })

  test('only an ended run is removed, with what ran below it', async () => {
    const { engine, database } = await open()
    engine.register('execution', async (run, steps) => {
      if (run.depth === 0) await steps.child('child', template)
      else await steps.wait('w', { details: null })
      return done(null)
    })
    const { id } = await engine.run()
    const link = await engine.until(id, (run) => run.lastSequence === 2)
    const child = ((await engine.journal(link.id))[1]!.payload as { run_id: string }).run_id
    await engine.until(child, (run) => run.waitingFor !== null)
    expect(await engine.call((call) => engine.remove(call, id))).toBe(false)
    await engine.call((call) => engine.signal(call, child, null, 'w'))
    await engine.end(id)
    expect(await engine.call((call) => engine.remove(call, id))).toBe(true)
    expect(await engine.find(database.read, LOCAL_TENANT, child)).toBeUndefined()
    expect(await engine.find(database.read, LOCAL_TENANT, id)).toBeUndefined()
  })

  test('an untrusted caller finds nothing, and lists nothing', async () => {
    const { engine, database } = await open()
    engine.register('execution', async () => done(null))
    const { id } = await engine.run()
    await engine.end(id)
    const untrusted = tenantId('unrelated')
    expect(await engine.find(database.read, untrusted, id)).toBeUndefined()
    expect(await engine.list(database.read, untrusted, { kind: 'execution', limit: 10 })).toEqual([])
    expect(await engine.count(database.read, LOCAL_TENANT, { kind: 'execution', subjectId: 'agent-1' })).toBe(1)
    expect(await engine.list(database.read, LOCAL_TENANT, { kind: 'execution', owner: 'else', limit: 10 })).toEqual([])
  })

  test('the end of the server leaves the run to the next one, which is told what was under way', async () => {
    const testDatabase = await newTestDatabase(dialect)
    onTestFinished(() => testDatabase.remove())
    const began = Promise.withResolvers<void>()
    const attempts: boolean[] = []
    const first = await testDatabase.open()
    const engine = openEngine(first)
    engine.register('execution', async (_, steps) => {
      await steps.once('recorded', async () => ({ result: attempts.push(false) }))
      await steps.once('long', () => forAsLongAs(steps, began.resolve), { intent: true })
      return done('never')
    })
    const { id } = await engine.run()
    await began.promise
    await engine.close()
    await first.close()

    const second = await testDatabase.open()
    const next = openEngine(second, { bootId: 'boot-2' })
    onTestFinished(async () => {
      await next.close()
      await second.close()
    })
    next.register('execution', async (_, steps) => {
      await steps.once('recorded', async () => ({ result: attempts.push(false) }))
      const interrupted = await steps.once('long', async (attempt) => ({ result: attempt.interrupted }), {
        intent: true,
      })
      return done({ interrupted })
    })
    await next.begin()
    expect(await next.end(id)).toMatchObject({ output: { interrupted: true } })
    expect(attempts).toHaveLength(1)
  })
})

const template = {
  kind: 'execution',
  subjectId: 'agent-2',
  subjectName: 'below',
  subjectVersion: '1.0.0',
  input: null,
} as const

/** Work that ends only when it is told to. */
async function forAsLongAs({ signal }: Steps, began: () => void): Promise<never> {
  began()
  const { promise, reject } = Promise.withResolvers<never>()
  signal.addEventListener('abort', () => reject(new AppError('ERR_CANCELLED', 'stopped')), { once: true })
  return await promise
}
