import { DatabaseSync } from 'node:sqlite'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Database } from '../../src/contract/database.ts'
import { localOwner, SYSTEM_TENANT, tenantId } from '../../src/contract/principal.ts'
import { spansAt } from '../../src/domains/agents/activity.ts'
import type { ActivityFilter, ActivitySpan } from '../../src/domains/agents/ports.ts'
import type { Run } from '../../src/engine/ports.ts'
import { sqlActivityStore as store } from '../../src/stores/sql/activity-store.ts'
import { sqlAgentStore } from '../../src/stores/sql/agent-store.ts'
import { sqlRunStore } from '../../src/stores/sql/run-store.ts'
import { compileAllStatements } from '../../src/stores/sql/statements.ts'
import { dialects, newTestDatabase, openEmpty } from '../support/databases.ts'

const ACME = tenantId('acme')
const NOW = 1_767_225_600_000

type Told = Readonly<{ owner: 'ann' | 'ben'; events: number; hasEnded: boolean; afterMs: number }>
const runOf = (id: string, { owner, events, hasEnded, afterMs }: Told): Run => ({
  tenant: ACME,
  id,
  kind: 'execution',
  subjectId: 'agent',
  subjectName: 'name',
  subjectVersion: '1.0.0',
  owner,
  principal: localOwner,
  parentId: null,
  rootId: id,
  depth: 0,
  input: null,
  status: hasEnded ? 'completed' : 'running',
  output: null,
  error: null,
  iteration: 1,
  state: null,
  startedAtMs: NOW + afterMs,
  changedAtMs: NOW + afterMs,
  endedAtMs: hasEnded ? NOW + afterMs : null,
  wakeAtMs: null,
  waitingFor: null,
  node: 'here',
  claim: null,
  cancelRequested: false,
  lastSequence: events,
})

const anyRun: fc.Arbitrary<Told> = fc.record({
  owner: fc.constantFrom('ann', 'ben'),
  events: fc.integer({ min: 1, max: 9 }),
  hasEnded: fc.boolean(),
  afterMs: fc.integer({ min: 0, max: 20 }),
})

describe.each(dialects)('the activity of agents in %s', (dialect) => {
  let database: Database
  beforeEach(async () => {
    database = await openEmpty(dialect)
  })
  afterEach(() => database.close())

  const wanted = (owner?: string): ActivityFilter => ({
    tenant: ACME,
    agent: { id: 'agent', tenant: ACME },
    owner,
  })
  const tell = (atMs: number, agentId = 'agent', tenant = ACME) =>
    database.write(ACME, (tx) =>
      sqlAgentStore.insertEvent(tx, tenant, { agentId, type: 'agent_updated', payload: { at: atMs }, atMs }),
    )
  /** Every event of a span, as the page that it is in has it. */
  async function pagesOf(owner: string | undefined, limit: number): Promise<string[]> {
    const seen: string[] = []
    for (let offset = 0; ; offset += limit) {
      const total = await store.countEvents(database.read, wanted(owner))
      const spans = await spansAt(store, database.read, wanted(owner), { offset, limit }, total)
      if (spans.length === 0) return seen
      const page = spans.flatMap((span) => eventsOf(span).slice(Math.max(0, offset - span.from)))
      seen.push(...page.slice(0, limit))
    }
  }
  const eventsOf = (span: ActivitySpan): string[] =>
    Array.from({ length: span.events }, (_, index) =>
      'runId' in span ? `${span.runId}/${index + 1}` : `event-${span.event.atMs - NOW}`,
    )

  it('is in pages that have every event once, in the order of starts, whatever the length of a page', async () => {
    let round = 0
    await fc.assert(
      fc.asyncProperty(
        fc.array(anyRun, { maxLength: 12 }),
        fc.array(fc.integer({ min: 0, max: 20 }), { maxLength: 4 }),
        fc.integer({ min: 1, max: 15 }),
        fc.constantFrom('ann', undefined),
        async (told, lifecycle, limit, owner) => {
          const number = ++round
          const runs = told.map((one, index) => runOf(`${number}-${String(index).padStart(2, '0')}`, one))
          await database.write(ACME, async (tx) => {
            for (const run of runs) await sqlRunStore.insertRun(tx, run)
          })
          const times = lifecycle.toSorted((a, b) => a - b)
          for (const afterMs of times) await tell(NOW + afterMs)
          const seen = runs
            .filter((run) => owner === undefined || run.owner === owner)
            .map((run) => ({
              at: run.startedAtMs,
              rank: run.id,
              names: eventsOf({ events: run.lastSequence, atMs: run.startedAtMs, runId: run.id }),
            }))
          const own = times.map((afterMs) => ({ at: NOW + afterMs, rank: '', names: [`event-${afterMs}`] }))
          const expected = [...own, ...seen]
            .toSorted((a, b) => a.at - b.at || (a.rank < b.rank ? -1 : a.rank > b.rank ? 1 : 0))
            .flatMap(({ names }) => names)
          try {
            expect(await pagesOf(owner, limit)).toEqual(expected)
            expect(await store.countEvents(database.read, wanted(owner))).toBe(expected.length)
          } finally {
            await database.write(ACME, async (tx) => {
              for (const { id } of runs) await sqlRunStore.deleteRun(tx, ACME, id)
              await sqlAgentStore.deleteAgent(tx, ACME, 'agent')
            })
          }
        },
      ),
      { numRuns: 30 },
    )
  })

  it('goes on being right while a run goes on', async () => {
    const run = runOf('one', { owner: 'ann', events: 2, hasEnded: false, afterMs: 0 })
    await database.write(ACME, (tx) => sqlRunStore.insertRun(tx, run))
    expect(await store.countEvents(database.read, wanted())).toBe(2)
    await database.write(ACME, (tx) => sqlRunStore.saveRun(tx, { ...run, lastSequence: 5 }))
    expect(await store.countEvents(database.read, wanted())).toBe(5)
    const ended = { ...run, status: 'completed', endedAtMs: NOW + 1, lastSequence: 6 } as const
    await database.write(ACME, (tx) => sqlRunStore.saveRun(tx, ended))
    expect(await store.countEvents(database.read, wanted())).toBe(6)
    expect(await spansAt(store, database.read, wanted(), { offset: 5, limit: 9 }, 6)).toEqual([
      { events: 6, from: 0, atMs: NOW, runId: 'one' },
    ])
  })

  it('has nothing of other agents, tenants and kinds of runs', async () => {
    const base = runOf('one', { owner: 'ann', events: 2, hasEnded: true, afterMs: 0 })
    await database.write(ACME, async (tx) => {
      await sqlRunStore.insertRun(tx, { ...base, subjectId: 'another' })
      await sqlRunStore.insertRun(tx, { ...base, id: 'two', kind: 'workflow' })
    })
    await tell(NOW, 'another')
    await tell(NOW, 'agent', SYSTEM_TENANT)
    expect(await store.countEvents(database.read, wanted())).toBe(0)
    const shared = { ...wanted(), agent: { id: 'agent', tenant: SYSTEM_TENANT } }
    expect(await store.countEvents(database.read, shared)).toBe(1)
    expect(await store.eventsOf(database.read, shared.agent)).toEqual([
      { agentId: 'agent', type: 'agent_updated', payload: { at: NOW }, atMs: NOW },
    ])
  })
})

it('is counted and paged by indexes alone in SQLite', async () => {
  const testDatabase = await newTestDatabase('SQLite')
  await (await testDatabase.open()).close()
  const file = new DatabaseSync(testDatabase.location)
  const statements = Object.entries(compileAllStatements('sqlite')).filter(([name]) =>
    name.startsWith('activity-store.'),
  )
  expect(statements).toHaveLength(7)
  for (const [name, { sql, bind }] of statements) {
    const rows = file.prepare(`EXPLAIN QUERY PLAN ${sql}`).all(...bind.map(() => null))
    const plan = rows.map(({ detail }) => String(detail)).join('\n')
    expect(plan, name).not.toMatch(/SCAN (?!CONSTANT)|TEMP B-TREE/)
    if (name.includes('totalFamily')) {
      expect(plan, name).toContain('USING COVERING INDEX runs_by_subject')
      expect(plan, name).toContain('USING INDEX runs_open_by_subject')
    }
  }
  file.close()
  testDatabase.remove()
})
