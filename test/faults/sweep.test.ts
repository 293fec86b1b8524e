import { afterEach, describe, expect, inject, test } from 'vitest'
import { digest } from '../../src/audit/call-entry.ts'
import { type FaultPoint, installFaultPlan } from '../../src/kernel/fault.ts'
import type { ToolAnswer, ToolFailure } from '../../src/tools/runtime/tool-host.ts'
import { type LogRecord, openTestApp, type TestApp } from '../support/app.ts'
import { type DialectName, dialects } from '../support/databases.ts'
import { isLongRun } from '../support/long-run.ts'
import { createDatabase } from '../support/postgres.ts'
import { findingsOf, gapsIn, readStateOf, type StoredState } from '../support/stored-state.ts'
import { type Operation, operations, type SweptCall } from './operations.ts'

/**
 * Every step of every operation that writes in several steps fails once, and the state is judged after each:
 * an answer that says what happened, all of the effect or nothing of it, one record per call, no gaps, and a clean bill
 * from the independent checker. `passing`: the step fails and the next works. `lasting`: everything fails from there on,
 * so that the failure itself cannot be recorded either.
 *
 * A step that fails after the commit leaves the outcome open. The program then asks its log: the call is answered as done
 * when it was, and only a store that is still gone makes the caller look for itself.
 */
type Kind = 'passing' | 'lasting'
const TURNS_MAX = 400

afterEach(() => installFaultPlan(undefined))

type Hit = { point: FaultPoint | undefined }

/** Fails at the `count`-th step of any kind, and says at which. */
function failAt(count: number, kind: Kind): Hit {
  const hit: Hit = { point: undefined }
  let seen = 0
  installFaultPlan((point) => {
    seen++
    if (seen < count || (seen > count && kind === 'passing')) return
    hit.point ??= point
    throw new Error(`planned at ${point}`)
  })
  return hit
}

async function openFor(dialect: DialectName, operation: Operation): Promise<TestApp> {
  const config = { ...operation.config, 'audit.checkpoint_interval_ms': 3_600_000, 'rate_limits.enabled': false }
  if (dialect === 'SQLite') return await openTestApp({ config })
  const url = new URL(await createDatabase(inject('postgresUrl')))
  // The server stays up in these tests, so its disk need not be waited for.
  url.searchParams.set('options', '-c synchronous_commit=off')
  return await openTestApp({ config: { ...config, database_url: url.href } })
}

type Turn = Readonly<{
  operation: Operation
  kind: Kind
  point: FaultPoint
  calls: readonly SweptCall[]
  answers: readonly ToolAnswer[]
  before: StoredState
  after: StoredState
}>

const failureOf = (answer: ToolAnswer): ToolFailure | undefined =>
  answer.isError ? (JSON.parse(answer.json) as { error: ToolFailure }).error : undefined
const isRefused = ({ kind }: Operation): boolean => kind === 'refused' || kind === 'asking'
const isUnknown = (answer: ToolAnswer): boolean => failureOf(answer)?.details['outcome'] === 'unknown'

async function makeCalls(app: TestApp, calls: readonly SweptCall[], { caller }: Operation): Promise<ToolAnswer[]> {
  const answers = await Promise.all(calls.map(({ tool, args }) => app.call(tool, args, caller)))
  await (await app.app.ready).database!.flush()
  return answers
}

/** What a turn did wrong, in words; nothing when all is well. */
function faultsOf(turn: Turn): string[] {
  const { before, after, calls, answers } = turn
  const added = after.log.slice(before.log.length)
  const faults: string[] = []
  if (JSON.stringify(after.log.slice(0, before.log.length)) !== JSON.stringify(before.log))
    faults.push('the log changed')
  for (const [index, answer] of answers.entries()) {
    const code = failureOf(answer)?.code
    const isExpected = code === undefined || code === 'ERR_STORE_UNAVAILABLE' || isRefused(turn.operation)
    if (!isExpected || code === 'ERR_INTERNAL') faults.push(`call ${index} was answered ${answer.json}`)
    if (isUnknown(answer) && !(turn.point === 'store.commit.after' && turn.kind === 'lasting')) {
      faults.push(`call ${index} need not have an unknown outcome`)
    }
  }
  if (new Set(added.map((record) => record.call_id)).size !== added.length) faults.push('a call is recorded twice')
  if (turn.kind === 'passing' && added.length !== calls.length) faults.push(`${added.length} records`)
  return [...faults, ...effectFaults(turn, added)]
}

/** The answers of calls that were done must be, one for one, what the records of calls that were done are about. */
function effectFaults({ operation, kind, before, after, answers }: Turn, added: readonly LogRecord[]): string[] {
  const faults: string[] = []
  const done = added.filter((record) => record.outcome === 'ok').map((record) => record.output ?? '')
  const answered = answers.filter((answer) => !answer.isError).map((answer) => digest(answer.json))
  const unrecorded = answered.filter((one) => !take(done, one))
  const mayBeLost = operation.kind === 'read' && kind === 'lasting'
  if (unrecorded.length > 0 && !mayBeLost) faults.push(`${unrecorded.length} calls were done and are not recorded so`)
  if (done.length > answers.filter(isUnknown).length) faults.push('a call that failed is recorded as done')
  const changed = JSON.stringify(before.tables) !== JSON.stringify(after.tables)
  if (operation.kind === 'asking') {
    const wasAsked = added.some(({ effects = [] }) => effects.some((effect) => effect.kind === 'approval_requested'))
    const isTold = answers.some((answer) => failureOf(answer)?.code === 'ERR_APPROVAL_REQUIRED')
    if (changed !== wasAsked) faults.push('a request is there without its record, or a record without its request')
    if (isTold && !wasAsked) faults.push('a request was told that is not there')
  } else if (changed && operation.kind !== 'write') faults.push('a call without effect changed a table')
  const wasDone = answered.length + done.length > 0
  if (operation.kind === 'write' && changed !== wasDone) {
    faults.push(changed ? 'a failed call left something' : 'a call that was done left nothing')
  }
  return faults
}

function take(from: string[], one: string): boolean {
  const index = from.indexOf(one)
  if (index >= 0) from.splice(index, 1)
  return index >= 0
}

async function sweep(app: TestApp, operation: Operation, kind: Kind): Promise<FaultPoint[]> {
  const points: FaultPoint[] = []
  for (let count = 1; count < TURNS_MAX; count++) {
    const calls = await operation.prepare(app, count + (kind === 'lasting' ? TURNS_MAX : 0))
    const before = await settled(app)
    const hit = failAt(count, kind)
    const answers = await makeCalls(app, calls, operation)
    installFaultPlan(undefined)
    const { point } = hit
    if (point === undefined) {
      for (const answer of answers) expect(answer.isError).toBe(isRefused(operation))
      return points
    }
    points.push(point)
    const after = await readStateOf(app)
    const where = `${kind} ${point}, step ${count}`
    expect(faultsOf({ operation, kind, point, calls, answers, before, after }), where).toEqual([])
    await app.ask('task_create', { title: 'the next call', project: 'next' })
    expect(gapsIn(await settled(app)), where).toEqual([])
    expect(await findingsOf(app), where).toEqual([])
  }
  throw new Error('the operation never came to its end')
}

async function settled(app: TestApp): Promise<StoredState> {
  await (await app.app.ready).database!.flush()
  return await readStateOf(app)
}

/** Over PostgreSQL the long run sweeps everything; the normal one what differs most there. */
const sweptOver = (dialect: DialectName): readonly Operation[] =>
  dialect === 'SQLite' || isLongRun ? operations : operations.filter(({ isBrief }) => isBrief)

for (const dialect of dialects) {
  describe(dialect, () => {
    for (const operation of sweptOver(dialect)) {
      test(`${operation.name}: whichever step fails, it is done wholly or not at all`, async () => {
        await using app = await openFor(dialect, operation)
        const points = new Set([
          ...(await sweep(app, operation, 'passing')),
          ...(await sweep(app, operation, 'lasting')),
        ])
        expect([...points].sort()).toEqual(
          expect.arrayContaining(['store.begin', 'store.commit.after', 'store.commit.before', 'store.write']),
        )
        if (dialect === 'SQLite') checkSearchIndex(app)
      })
    }
  })
}

/** SQLite itself compares the full-text index with the tasks, and throws where they differ. */
function checkSearchIndex(app: TestApp): void {
  app.behindItsBack((db) => db.exec("INSERT INTO tasks_search (tasks_search, rank) VALUES ('integrity-check', 1)"))
}
