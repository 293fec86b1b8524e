import { describe, expect, onTestFinished, test } from 'vitest'
import type { Program } from '../../src/engine/ports.ts'
import { dialects, openEmpty } from '../support/databases.ts'
import { openEngine, type TestEngine } from '../support/engine.ts'

const never = new Promise<never>(() => {})

describe.each(dialects)('a run during which the server dies again and again, over %s', (dialect) => {
  /** Lives one after the other. A death leaves the engine as it is: it has the run no more once the next one took it. */
  async function lives() {
    const database = await openEmpty(dialect)
    let life = 0
    onTestFinished(() => database.close())
    return async (program: Program, finalizer?: Parameters<TestEngine['register']>[2]): Promise<TestEngine> => {
      const engine = openEngine(database, { bootId: `boot-${life++}` })
      engine.register('execution', program, finalizer)
      await engine.begin()
      return engine
    }
  }

  /** A program whose step ends the process; `tries` resolves at each try. */
  function deadly() {
    let tries = 0
    const started: (() => void)[] = []
    const program: Program = async (_, steps) => {
      await steps.once('good', async () => ({ result: 1 }))
      await steps.once(
        'deadly',
        async () => {
          started[tries++]?.()
          return await never
        },
        { intent: true },
      )
      return { status: 'completed', output: null }
    }
    return { program, tries: () => tries, next: () => new Promise<void>((resolve) => started.push(resolve)) }
  }

  test('fails in the end, says where, and is tidied up', async () => {
    const live = await lives()
    const { program, tries, next } = deadly()
    let started = next()
    const { id } = await (await live(program)).run()
    await started
    for (let death = 1; death <= 3; death++) {
      started = next()
      await live(program)
      await started
    }
    const tidied: string[] = []
    const last = await live(program, async (_run, _steps, status) => void tidied.push(status))
    expect(await last.end(id)).toMatchObject({
      status: 'failed',
      error: { code: 'ERR_RUN_STUCK', details: { sequence: 3, resumes: 4 } },
    })
    expect(tries()).toBe(4)
    expect(tidied).toEqual(['failed'])
    const types = (await last.journal(id)).map(({ type }) => type)
    expect(types.filter((type) => type === 'run_resumed')).toHaveLength(4)
  })

  test('goes on as long as something comes of it', async () => {
    const live = await lives()
    let death = 0
    const started: (() => void)[] = []
    const program: Program = async (_, steps) => {
      for (let step = 0; step < 8; step++) {
        await steps.once(`step-${step}`, async () => {
          if (step === death && death < 6) {
            started[death]?.()
            return await never
          }
          return { result: step }
        })
      }
      return { status: 'completed', output: null }
    }
    const wait = () => new Promise<void>((resolve) => started.push(resolve))
    let reached = wait()
    const { id } = await (await live(program)).run()
    for (death = 0; death < 6; ) {
      await reached
      death++
      reached = wait()
      const engine = await live(program)
      if (death === 6) expect(await engine.end(id)).toMatchObject({ status: 'completed' })
    }
  })

  test('is not counted when servers end in order', async () => {
    const live = await lives()
    const { program, next } = deadly()
    const stoppable: Program = async (run, steps) => {
      const stopped = new Promise<never>((_, reject) =>
        steps.signal.addEventListener('abort', () => reject(new Error('stopped'))),
      )
      return await Promise.race([program(run, steps), stopped])
    }
    let started = next()
    let engine = await live(stoppable)
    const { id } = await engine.run()
    for (let end = 0; end < 6; end++) {
      await started
      await engine.close()
      started = next()
      engine = await live(stoppable)
    }
    await started
    expect((await engine.journal(id)).map(({ type }) => type)).not.toContain('run_resumed')
  })
})
