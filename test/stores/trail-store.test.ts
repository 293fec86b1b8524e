import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Database } from '../../src/contract/database.ts'
import type { TenantId } from '../../src/contract/principal.ts'
import type { AuditSession, Thought, ThoughtFilter } from '../../src/domains/trail/ports.ts'
import { sqlTrailStore as store } from '../../src/stores/sql/trail-store.ts'
import { dialects, openEmpty } from '../support/databases.ts'
import { ACME, NOW, OTHER } from '../support/sample-tasks.ts'

const page = { limit: 100, offset: 0 }

describe.each(dialects)('the trail in %s', (dialect) => {
  let database: Database

  beforeEach(async () => {
    database = await openEmpty(dialect)
  })
  afterEach(() => database.close())

  const addThought = (tenant: TenantId, taskNumber: number, more: Partial<Thought> = {}): Promise<Thought> =>
    database.write(tenant, async (tx) => {
      const last = await store.lastThought(tx, tenant, taskNumber)
      const number = store.takeThoughtNumber(tx, tenant)
      const thought: Thought = {
        number,
        taskNumber,
        chainPosition: (last?.chainPosition ?? 0) + 1,
        logSeq: number * 10,
        type: 'decision',
        content: `thought ${number}`,
        branch: null,
        commitSha: null,
        testsRun: null,
        blockers: null,
        metadata: null,
        hash: `hash ${number}`,
        previousHash: last?.hash ?? null,
        recordedAtMs: NOW + number,
        recordedBy: 'owner',
        ...more,
      }
      await store.insertThought(tx, tenant, thought)
      return thought
    })

  const addSession = (more: Partial<AuditSession> = {}): Promise<AuditSession> =>
    database.write(ACME, async (tx) => {
      const session: AuditSession = {
        number: store.takeSessionNumber(tx, ACME),
        taskNumber: 1,
        auditorId: 'auditor',
        reason: null,
        scope: 'shallow',
        startedAtMs: NOW,
        startedBy: 'owner',
        startSeq: 7,
        finalized: null,
        ...more,
      }
      await store.insertSession(tx, ACME, session)
      return session
    })

  it('keeps every field of a thought, and tells an empty list from none', async () => {
    const full = await addThought(ACME, 1, {
      type: 'blockers',
      content: 'Gedanke — "quoted" 😀\n',
      branch: 'main',
      commitSha: 'abc',
      testsRun: ['unit', ''],
      blockers: [],
      metadata: { b: 1.5, a: [null, { ß: 'x' }], '': true },
    })
    const bare = await addThought(ACME, 1)
    expect(await store.listThoughts(database.read, ACME, {}, page)).toEqual([full, bare])
    expect(bare).toMatchObject({ chainPosition: 2, previousHash: full.hash })
  })

  it('knows the end of each chain, inside the transaction too', async () => {
    expect(await store.lastThought(database.read, ACME, 1)).toBeUndefined()
    for (const taskNumber of [1, 2, 1, 1]) await addThought(ACME, taskNumber)
    expect(await store.lastThought(database.read, ACME, 1)).toEqual({ hash: 'hash 4', chainPosition: 3 })
    expect(await store.lastThought(database.read, ACME, 2)).toEqual({ hash: 'hash 2', chainPosition: 1 })
    expect(await store.thoughtNumbers(database.read, ACME, 1, 10)).toEqual([1, 3, 4])
    expect(await store.thoughtNumbers(database.read, ACME, 1, 2)).toEqual([1, 3])
  })

  it('refuses a second thought at the same place of a chain, and gives the number back', async () => {
    await addThought(ACME, 1)
    await expect(addThought(ACME, 1, { chainPosition: 1 })).rejects.toThrow()
    expect((await addThought(ACME, 1)).number).toBe(2)
    expect(await store.countThoughts(database.read, ACME, {})).toBe(2)
  })

  it('filters by tasks, positions in the log and type, and counts what it would list', async () => {
    const types = ['decision', 'risk', 'reflection'] as const
    for (let index = 0; index < 12; index++) await addThought(ACME, (index % 4) + 1, { type: types[index % 3]! })
    const everything = await store.listThoughts(database.read, ACME, {}, page)
    const cases: [ThoughtFilter, (thought: Thought) => boolean][] = [
      [{ taskNumbers: [2] }, (thought) => thought.taskNumber === 2],
      [{ taskNumbers: [4, 1, 3] }, (thought) => thought.taskNumber !== 2],
      [{ taskNumbers: [1, 2, 3, 4, 5] }, () => true],
      [{ taskNumbers: [] }, () => false],
      [{ taskNumbers: [99] }, () => false],
      [{ fromSeq: 50 }, (thought) => thought.logSeq >= 50],
      [{ toSeq: 50 }, (thought) => thought.logSeq < 50],
      [{ type: 'risk' }, (thought) => thought.type === 'risk'],
      [
        { taskNumbers: [1, 2], fromSeq: 20, toSeq: 100, type: 'decision' },
        (thought) =>
          thought.taskNumber <= 2 && thought.logSeq >= 20 && thought.logSeq < 100 && thought.type === 'decision',
      ],
    ]
    for (const [filter, holds] of cases) {
      const expected = everything.filter(holds)
      expect(await store.listThoughts(database.read, ACME, filter, page), JSON.stringify(filter)).toEqual(expected)
      expect(await store.countThoughts(database.read, ACME, filter)).toBe(expected.length)
    }
    expect(everything.map((thought) => thought.number)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12])
    expect(await store.listThoughts(database.read, ACME, {}, { limit: 3, offset: 5 })).toEqual(everything.slice(5, 8))
  })

  it('keeps a session, and lets only the first finalisation win', async () => {
    const session = await addSession({ reason: 'because', scope: 'deep' })
    const other = await addSession()
    expect([session.number, other.number]).toEqual([1, 2])
    expect(await store.findSession(database.read, ACME, 1)).toEqual(session)
    expect(await store.findSession(database.read, ACME, 3)).toBeUndefined()
    const ends = [1, 2, 3].map((endSeq) => ({
      endSeq,
      atMs: NOW + endSeq,
      onlyTaskNumber: endSeq === 1 ? 4 : null,
      merkleRoot: `root ${endSeq}`,
      treeDepth: 3,
      leafCount: 5,
    }))
    const won = await Promise.all(
      ends.map((end) => database.write(ACME, (tx) => store.finalizeSession(tx, ACME, 1, end))),
    )
    expect(won).toEqual([true, false, false])
    expect(await store.findSession(database.read, ACME, 1)).toEqual({ ...session, finalized: ends[0] })
    expect(await store.findSession(database.read, ACME, 2)).toEqual(other)
    expect(await database.write(ACME, (tx) => store.finalizeSession(tx, ACME, 9, ends[0]!))).toBe(false)
  })

  it('shows another tenant nothing and refuses its units', async () => {
    const thought = await addThought(ACME, 1)
    const session = await addSession()
    expect(await store.lastThought(database.read, OTHER, 1)).toBeUndefined()
    expect(await store.listThoughts(database.read, OTHER, {}, page)).toEqual([])
    expect(await store.listThoughts(database.read, OTHER, { taskNumbers: [1] }, page)).toEqual([])
    expect(await store.countThoughts(database.read, OTHER, {})).toBe(0)
    expect(await store.thoughtNumbers(database.read, OTHER, 1, 10)).toEqual([])
    expect(await store.findSession(database.read, OTHER, 1)).toBeUndefined()
    const end = { endSeq: 1, atMs: NOW, onlyTaskNumber: null, merkleRoot: 'r', treeDepth: 1, leafCount: 1 }
    const finalizeOwn = database.write(OTHER, (tx) => store.finalizeSession(tx, OTHER, 1, end))
    expect(await finalizeOwn).toBe(false)
    const foreign = [
      database.write(OTHER, async (tx) => store.takeThoughtNumber(tx, ACME)),
      database.write(OTHER, async (tx) => store.takeSessionNumber(tx, ACME)),
      database.write(OTHER, (tx) => store.insertThought(tx, ACME, { ...thought, number: 9, chainPosition: 9 })),
      database.write(OTHER, (tx) => store.insertSession(tx, ACME, { ...session, number: 9 })),
      database.write(OTHER, (tx) => store.finalizeSession(tx, ACME, 1, end)),
    ]
    for (const outcome of await Promise.allSettled(foreign)) expect(outcome.status).toBe('rejected')
    expect(await store.findSession(database.read, ACME, 1)).toEqual(session)
    expect(await store.countThoughts(database.read, ACME, {})).toBe(1)
    expect((await addThought(OTHER, 1)).number).toBe(1)
  })
})
