import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Database } from '../../src/contract/database.ts'
import type { Program } from '../../src/engine/ports.ts'
import type { Json } from '../../src/kernel/canonical-json.ts'
import { type DialectName, dialects, newTestDatabase } from '../support/databases.ts'
import { openEngine } from '../support/engine.ts'
import { isLongRun } from '../support/long-run.ts'

/**
 * Whatever the moments of death, a recorded step is not done again, and the result is the one without any death.
 * A death: the n-th write of a process is lost, or is on disk without anybody knowing, and the process does nothing more.
 */
type Action = Readonly<{ kind: 'step' | 'intent' | 'fails' | 'note' | 'wait' | 'child'; value: number }>
type Death = Readonly<{ atWrite: number; isLost: boolean }>

const action = fc.record<Action>({
  kind: fc.constantFrom('step', 'intent', 'fails', 'note', 'wait', 'child'),
  value: fc.integer({ min: 0, max: 9 }),
})
const death = fc.record<Death>({ atWrite: fc.integer({ min: 1, max: 12 }), isLost: fc.boolean() })

const never = new Promise<never>(() => {})

function mortal(database: Database, { atWrite, isLost }: Death, onDeath: () => void): Database {
  let writes = 0
  const live = <T>(work: () => T): T => (writes >= atWrite ? (never as T) : work())
  return {
    ...database,
    flush: () => live(() => database.flush()),
    async write(tenant, work) {
      return await live(async () => {
        if (++writes < atWrite) return await database.write(tenant, work)
        if (!isLost) await database.write(tenant, work)
        onDeath()
        return await never
      })
    },
  }
}

/** Sums what its steps answer; `did` counts how often each was really done. */
function programOf(
  actions: readonly Action[],
  did: Map<string, number>,
  isAlive: () => boolean,
  recorded: ReadonlySet<string>,
): Program {
  return async (run, steps) => {
    let sum = 0
    if (run.depth > 0) {
      const value = run.input as number
      return { status: 'completed', output: await steps.once('below', async () => ({ result: value * 2 })) }
    }
    for (const [index, { kind, value }] of actions.entries()) {
      const key = `${kind}-${index}`
      const work = async () => {
        if (!isAlive()) return await never
        if (recorded.has(key)) throw new Error(`${key} was recorded and is done again`)
        did.set(key, (did.get(key) ?? 0) + 1)
        return { result: value, events: [{ type: 'worked', payload: { key } }] }
      }
      steps.setPosition({ iteration: index })
      if (kind === 'note') steps.note({ type: 'noted', payload: { index } })
      else if (kind === 'child') {
        const below = {
          kind: 'execution',
          subjectId: 'b',
          subjectName: 'b',
          subjectVersion: '1',
          input: value,
        } as const
        sum += (await steps.child(key, below)).output as number
      } else if (kind === 'wait') {
        sum += (await steps.wait(key, { untilMs: steps.nowMs(), details: null })).kind.length
      } else sum = sum * 3 + (await steps.once(key, work, { intent: kind === 'intent' }))
    }
    return { status: 'completed', output: sum }
  }
}

/** Lives one life after the other; the last one dies of nothing. */
async function live(dialect: DialectName, actions: readonly Action[], deaths: readonly Death[]) {
  const testDatabase = await newTestDatabase(dialect)
  const did = new Map<string, number>()
  let id: string | undefined
  try {
    for (const [life, end] of [...deaths, undefined].entries()) {
      const database = await testDatabase.open()
      const dead = Promise.withResolvers<void>()
      let isAlive = true
      const onDeath = () => {
        isAlive = false
        dead.resolve()
      }
      const engine = openEngine(end === undefined ? database : mortal(database, end, onDeath), {
        bootId: `boot-${life}`,
      })
      const recorded = new Set(id === undefined ? [] : (await engine.journal(id)).flatMap(({ key }) => key ?? []))
      engine.register(
        'execution',
        programOf(actions, did, () => isAlive, recorded),
      )
      await engine.begin()
      const starting = id === undefined ? engine.run() : undefined
      starting?.catch(() => {})
      const started = await Promise.race([starting, dead.promise])
      id ??= started?.id
      if (id === undefined) {
        const [found] = await engine.list(database.read, 'local' as never, { kind: 'execution', limit: 1 })
        id = found?.id
      }
      if (end === undefined) {
        const run = await engine.end(id!)
        const journal = await engine.journal(id!)
        await engine.close()
        await database.close()
        return { run, journal, did }
      }
      await Promise.race([dead.promise, id === undefined ? undefined : engine.end(id).catch(() => {})])
      isAlive = false
      await database.close()
    }
  } finally {
    testDatabase.remove()
  }
  throw new Error('the last life did not end')
}

const facts = (journal: readonly { type: string; key: string | null; payload: Json }[]): string[] =>
  journal.filter(({ type }) => type === 'worked' || type === 'noted').map(({ payload }) => JSON.stringify(payload))

describe.each(dialects)('over %s', (dialect) => {
  test('a run survives any death', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(action, { minLength: 1, maxLength: 6 }),
        fc.array(death, { minLength: 1, maxLength: 3 }),
        async (actions, deaths) => {
          const plain = await live(dialect, actions, [])
          const died = await live(dialect, actions, deaths)
          expect(died.run.output).toEqual(plain.run.output)
          expect(facts(died.journal)).toEqual(facts(plain.journal))
          expect(died.journal.map(({ sequence }) => sequence)).toEqual(died.journal.map((_, index) => index + 1))
          const keys = died.journal.flatMap(({ key }) => key ?? [])
          expect(new Set(keys).size).toBe(keys.length)
          // A step is done again only when the process died between doing and recording it.
          for (const times of died.did.values()) expect(times).toBeLessThanOrEqual(1 + deaths.length)
        },
      ),
      { numRuns: isLongRun ? 200 : dialect === 'SQLite' ? 25 : 4 },
    )
  })
})
