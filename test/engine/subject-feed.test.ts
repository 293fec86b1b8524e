import { describe, expect, onTestFinished, test } from 'vitest'
import { LOCAL_TENANT } from '../../src/contract/principal.ts'
import { type FeedCursor, parseCursor, type SubjectEvent } from '../../src/engine/subject-feed.ts'
import { dialects, openEmpty } from '../support/databases.ts'
import { openEngine, type TestEngine } from '../support/engine.ts'

const never = new AbortController().signal
const keyOf = ({ runId, event }: SubjectEvent): string => `${runId}/${event.sequence}`

async function told(engine: TestEngine, from?: FeedCursor, owner?: string): Promise<SubjectEvent[]> {
  const options = { subjectId: 'agent-1', owner, from, follow: false, signal: never }
  const events: SubjectEvent[] = []
  for await (const event of engine.subscribeSubject(LOCAL_TENANT, options)) events.push(event)
  return events
}

describe.each(dialects)('over %s', (dialect) => {
  async function open(): Promise<TestEngine> {
    const database = await openEmpty(dialect)
    const engine = openEngine(database)
    onTestFinished(async () => {
      await engine.close()
      await database.close()
    })
    engine.register('execution', async (run, steps) => {
      const count = run.input as number
      for (let step = 1; step <= count; step++) await steps.once(`${step}`, async () => ({ result: step }))
      return { status: 'completed', output: null }
    })
    return engine
  }

  test('runs beside each other are told by time, each event once, and from any place exactly the rest', async () => {
    const engine = await open()
    const counts = [5, 1, 120, 3, 0, 8]
    const runs = await Promise.all(counts.map((input) => engine.run({ input })))
    await engine.run({ subjectId: 'agent-2', input: 1 })
    for (const { id } of runs) await engine.end(id)
    const all = await told(engine)
    expect(all.length).toBe(counts.reduce((sum, count) => sum + count + 2, 0))
    expect(new Set(all.map(keyOf)).size).toBe(all.length)
    const times = all.map(({ event }) => event.atMs)
    expect(times).toEqual(times.toSorted((one, other) => one - other))
    for (const index of [0, 1, 2, 17, 60, 100, all.length - 2, all.length - 1]) {
      const rest = await told(engine, parseCursor(all[index]!.cursor)!)
      expect(rest.map(keyOf).toSorted(), `after ${index}`).toEqual(
        all
          .slice(index + 1)
          .map(keyOf)
          .toSorted(),
      )
    }
    expect(await told(engine, undefined, 'another owner')).toEqual([])
  })

  test('what happens later is told when it happens, runs that begin later included', async () => {
    const engine = await open()
    await engine.end((await engine.run({ input: 1 })).id)
    const stop = new AbortController()
    const seen: string[] = []
    let second: string | undefined
    const options = { subjectId: 'agent-1', follow: true, signal: stop.signal }
    for await (const { runId, event } of engine.subscribeSubject(LOCAL_TENANT, options)) {
      seen.push(event.type)
      if (event.type !== 'execution_completed') continue
      if (second === runId) stop.abort()
      else second ??= (await engine.run({ input: 2 })).id
    }
    const one = ['execution_started', 'step_completed', 'execution_completed']
    expect(seen).toEqual([...one, 'execution_started', 'step_completed', ...one.slice(1)])
  })
})

test('what is no place is none', () => {
  for (const text of ['', 'x', '12~', '12~a', '12~a.b', `12${'~a.1'.repeat(49)}`]) {
    expect(parseCursor(text), text).toBeUndefined()
  }
  expect(parseCursor('12~a-b.3')).toEqual({ atMs: 12, seen: new Map([['a-b', 3]]) })
})
