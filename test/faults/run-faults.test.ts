import { afterEach, describe, expect, onTestFinished, test } from 'vitest'
import { LOCAL_TENANT } from '../../src/contract/principal.ts'
import { type FaultPoint, installFaultPlan } from '../../src/kernel/fault.ts'
import { dialects, openEmpty } from '../support/databases.ts'
import { openEngine, sampleRun } from '../support/engine.ts'
import { isLongRun } from '../support/long-run.ts'

/** Every step that a run writes fails once, and the run goes on as if nothing had happened. */
afterEach(() => installFaultPlan(undefined))

const TURNS_MAX = 120

/** Over PostgreSQL the long run sweeps it: the rules are those of the engine, not of the store. */
const swept = isLongRun ? dialects : dialects.slice(0, 1)

describe.each(swept)('over %s', (dialect) => {
  test('whichever write of a run fails, its steps are done once and its journal has no gap', async () => {
    const database = await openEmpty(dialect)
    const engine = openEngine(database)
    onTestFinished(async () => {
      installFaultPlan(undefined)
      await engine.close()
      await database.close()
    })
    let did: string[] = []
    engine.register('execution', async (run, steps) => {
      if (run.depth > 0) return { status: 'completed', output: 'below' }
      for (const key of ['a', 'b']) {
        steps.note({ type: 'noted', payload: { key } })
        await steps.once(key, async () => ({ result: did.push(key) }), { intent: key === 'b' })
      }
      const below = await steps.child('child', { ...sampleRun, subjectName: 'below' })
      const waited = await steps.wait('w', { untilMs: steps.nowMs(), details: null })
      return { status: 'completed', output: { below: below.output, waited: waited.kind } }
    })
    const points = new Set<FaultPoint>()
    let isOver = false
    for (let count = 1; count < TURNS_MAX && !isOver; count++) {
      did = []
      const { id } = await engine.run()
      let seen = 0
      isOver = true
      installFaultPlan((point) => {
        if (!point.startsWith('store.') || ++seen !== count) return
        isOver = false
        points.add(point)
        throw new Error(`planned at ${point}`)
      })
      const end = await engine.end(id)
      installFaultPlan(undefined)
      expect(end, `turn ${count}`).toMatchObject({ output: { below: 'below', waited: 'timeout' } })
      expect(did, `turn ${count}`).toEqual(['a', 'b'])
      const journal = await engine.journal(id)
      expect(journal.map(({ sequence }) => sequence)).toEqual(journal.map((_, index) => index + 1))
      expect(journal.filter(({ type }) => type === 'noted')).toHaveLength(2)
    }
    expect(isOver).toBe(true)
    expect([...points]).toEqual(expect.arrayContaining(['store.begin', 'store.commit.before', 'store.commit.after']))
    expect(await engine.count(database.read, LOCAL_TENANT, { kind: 'execution', status: 'failed' })).toBe(0)
  })
})
