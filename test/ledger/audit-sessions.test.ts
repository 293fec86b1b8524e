import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type Answer, movableClock, openTestApp, type TestApp } from '../support/app.ts'
import { documentTree, expectFailure, move, newTask, sha256, think, verify } from '../support/ledger.ts'

const clock = movableClock()
let app: TestApp
beforeEach(async () => {
  app = await openTestApp({ clock })
  await newTask(app)
})
afterEach(() => app[Symbol.asyncDispose]())

const start = async (rest: object = {}): Promise<string> =>
  (await app.ask<{ session_id: string }>('audit_session_start', { task_id: 'T-0001', auditor_id: 'ann', ...rest }))
    .session_id
const finalize = (session_id: string, rest: object = {}) => app.ask('merkle_finalize', { session_id, ...rest })
const rootOf = (session_id: string) =>
  app.ask<{ merkle_root: string; is_finalized: boolean; as_of: string }>('merkle_root', { session_id })

/** The hashes of the records of the named tasks, from the log itself. */
async function leavesOf(fromSeq: number, toSeq: number, ...tasks: string[]): Promise<string[]> {
  const entries = (await app.log()).slice(fromSeq, toSeq)
  return entries
    .flatMap((entry) => entry.effects ?? [])
    .filter((effect) => effect.subject !== undefined && tasks.includes(String(effect.body['task_id'])))
    .map((effect) => String(effect.hash))
}
const sizeNow = async (): Promise<number> => (await app.log()).length

describe('audit_session_start', () => {
  it('answers the example of the document in its shape', async () => {
    const example = { task_id: 'T-0001', auditor_id: 'agent-auditor', reason: 'Proof review', scope: 'deep' }
    expect(await app.ask('audit_session_start', example)).toEqual({
      session_id: 'A-0001',
      task_id: 'T-0001',
      auditor_id: 'agent-auditor',
      started_at: new Date(clock.nowMs()).toISOString(),
      scope: 'deep',
    })
  })

  it('is shallow unless told otherwise', async () => {
    expect(await app.ask('audit_session_start', { task_id: 'T-0001', auditor_id: 'a' })).toMatchObject({
      scope: 'shallow',
    })
  })

  const refused: readonly [object, string, string][] = [
    [{ task_id: 'T-9999' }, 'ERR_TASK_NOT_FOUND', 'task_id'],
    [{ task_id: undefined }, 'ERR_INVALID_INPUT', 'task_id'],
    [{ auditor_id: undefined }, 'ERR_INVALID_INPUT', 'auditor_id'],
    [{ auditor_id: '' }, 'ERR_INVALID_INPUT', 'auditor_id'],
    [{ scope: 'wide' }, 'ERR_INVALID_INPUT', 'scope'],
    [{ reason: 'r'.repeat(2001) }, 'ERR_INVALID_INPUT', 'reason'],
  ]
  it.each(refused)('refuses %o with %s', async (rest, code, field) => {
    const args = { task_id: 'T-0001', auditor_id: 'a', ...rest }
    await expectFailure(app, 'audit_session_start', args, code, { field })
  })
})

describe('what a session covers', () => {
  it('is, shallow, the thoughts and the updates of its task from its start to its freeze', async () => {
    await think(app, 'T-0001', 'before')
    const child = await newTask(app, { parent_id: 'T-0001' })
    const session = await start()
    const from = await sizeNow()
    await think(app, 'T-0001', 'one')
    await think(app, child, 'of the child')
    await move(app, 'T-0001', 'todo')
    await app.ask('task_get', { task_id: 'T-0001' })
    await newTask(app, { parent_id: 'T-0001' })
    await app.refusal('task_update', { task_id: 'T-0001', status: 'done' })
    const leaves = await leavesOf(from, await sizeNow(), 'T-0001')
    expect(leaves).toHaveLength(2)
    expect(await rootOf(session)).toMatchObject({ merkle_root: documentTree(leaves).root, is_finalized: false })
    expect(await finalize(session)).toMatchObject({ leaf_count: 2, merkle_root: documentTree(leaves).root })
    await think(app, 'T-0001', 'after')
    expect(await verify(app, { session_id: session })).toMatchObject({ total_records: 2, chain_valid: true })
  })

  it('is, deep, also those of the tasks below at any depth, and their creation', async () => {
    const child = await newTask(app, { parent_id: 'T-0001' })
    const other = await newTask(app)
    const session = await start({ scope: 'deep' })
    const from = await sizeNow()
    const grandchild = await newTask(app, { parent_id: child })
    const below = await newTask(app, { parent_id: grandchild })
    for (const task of ['T-0001', child, grandchild, below, other]) await think(app, task, 'x')
    const leaves = await leavesOf(from, await sizeNow(), 'T-0001', child, grandchild, below)
    expect(leaves).toHaveLength(6)
    expect(await finalize(session)).toMatchObject({ leaf_count: 6, merkle_root: documentTree(leaves).root })
    await newTask(app, { parent_id: below })
    expect(await verify(app, { session_id: session })).toMatchObject({ total_records: 6, chain_valid: true })
  })

  it('may overlap with what another covers', async () => {
    const first = await start()
    const from = await sizeNow()
    await think(app, 'T-0001', 'one')
    const second = await start()
    await think(app, 'T-0001', 'two')
    const frozenAt = await sizeNow()
    expect(await finalize(first)).toMatchObject({ leaf_count: 2 })
    await think(app, 'T-0001', 'three')
    const leaves = await leavesOf(from, await sizeNow(), 'T-0001')
    expect(await finalize(second)).toMatchObject({ leaf_count: 2, merkle_root: documentTree(leaves.slice(1)).root })
    expect(await leavesOf(from, frozenAt, 'T-0001')).toEqual(leaves.slice(0, 2))
    expect(await rootOf(first)).toMatchObject({ merkle_root: documentTree(leaves.slice(0, 2)).root })
  })

  it('does not end when it is verified', async () => {
    const session = await start()
    await think(app, 'T-0001', 'one')
    expect(await verify(app, { session_id: session })).toMatchObject({ total_records: 1 })
    await think(app, 'T-0001', 'two')
    expect(await verify(app, { session_id: session })).toMatchObject({ total_records: 2 })
    expect(await finalize(session)).toMatchObject({ leaf_count: 2 })
  })
})

describe('the tree of the document', () => {
  it.each([0, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17])('over %i records', async (count) => {
    const session = await start()
    const thoughts = []
    for (let index = 0; index < count; index++) thoughts.push(await think(app, 'T-0001', `${index}`))
    const { root, depth } = documentTree(thoughts.map(({ hash }) => hash))
    expect(await rootOf(session)).toMatchObject({ merkle_root: root, is_finalized: false })
    expect(await finalize(session)).toEqual({
      session_id: session,
      merkle_root: root,
      tree_depth: depth,
      leaf_count: count,
      finalized_at: new Date(clock.nowMs()).toISOString(),
      frozen: true,
    })
  })

  it('has the depth that the document shows, promotes the odd one, and is SHA-256 of nothing when empty', () => {
    const leaves = Array.from({ length: 8 }, (_, index) => sha256(String(index)))
    expect(documentTree(leaves).depth).toBe(4)
    const [a, b, c] = leaves as [string, string, string]
    const join = (left: string, right: string) => sha256(Buffer.from(left + right, 'hex'))
    expect(documentTree([a, b, c]).root).toBe(join(join(a, b), c))
    expect(documentTree([]).root).toBe('e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855')
  })

  it('has the records of one task when one is named', async () => {
    const child = await newTask(app, { parent_id: 'T-0001' })
    const other = await newTask(app)
    const session = await start({ scope: 'deep' })
    await think(app, 'T-0001', 'one')
    const { hash } = await think(app, child, 'two')
    await expectFailure(app, 'merkle_finalize', { session_id: session, task_id: other }, 'ERR_INVALID_INPUT', {
      field: 'task_id',
    })
    await expectFailure(app, 'merkle_finalize', { session_id: session, task_id: 'T-9999' }, 'ERR_TASK_NOT_FOUND')
    expect(await finalize(session, { task_id: child })).toMatchObject({ leaf_count: 1, merkle_root: hash })
    expect(await verify(app, { session_id: session })).toMatchObject({ total_records: 1, chain_valid: true })
  })
})

describe('merkle_finalize', () => {
  it('freezes once, also when many try at once', async () => {
    const session = await start()
    await think(app, 'T-0001', 'one')
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => app.call('merkle_finalize', { session_id: session })),
    )
    const failures = answers.flatMap((answer) => answer.failure?.code ?? [])
    expect(failures).toEqual(Array.from({ length: 19 }, () => 'ERR_ALREADY_FINALIZED'))
    await expectFailure(app, 'merkle_finalize', { session_id: session }, 'ERR_ALREADY_FINALIZED', {
      field: 'session_id',
    })
  })

  it('needs the role of an editor', async () => {
    const session = await start()
    const member = await app.keyCaller({ role: 'member' })
    const args = { session_id: session }
    expect((await app.refusal('merkle_finalize', args, member)).code).toBe('ERR_PERMISSION_DENIED')
    expect(await app.ask('merkle_finalize', args, await app.keyCaller({ role: 'editor' }))).toMatchObject({
      frozen: true,
    })
  })
})

describe('merkle_root', () => {
  it('says since when the root is as it is', async () => {
    const session = await start()
    const times = [clock.nowMs()]
    const asOf = async () => Date.parse((await rootOf(session)).as_of)
    expect(await asOf()).toBe(times[0])
    clock.advance(1_000)
    await think(app, 'T-0001', 'one')
    times.push(clock.nowMs())
    clock.advance(1_000)
    await newTask(app)
    expect(await asOf()).toBe(times[1])
    await finalize(session)
    times.push(clock.nowMs())
    clock.advance(1_000)
    await think(app, 'T-0001', 'two')
    expect(await asOf()).toBe(times[2])
    expect((await rootOf(session)).is_finalized).toBe(true)
  })
})

describe('what is not there', () => {
  const missing: readonly [string, object, string][] = [
    ['audit_verify_chain', { session_id: 'A-9999' }, 'ERR_NOT_FOUND'],
    ['audit_verify_chain', { task_id: 'T-9999' }, 'ERR_NOT_FOUND'],
    ['audit_verify_chain', { session_id: 'nonsense' }, 'ERR_NOT_FOUND'],
    ['merkle_finalize', { session_id: 'A-9999' }, 'ERR_SESSION_NOT_FOUND'],
    ['merkle_root', { session_id: 'A-9999' }, 'ERR_SESSION_NOT_FOUND'],
    ['merkle_root', { session_id: 'T-0001' }, 'ERR_SESSION_NOT_FOUND'],
    ['merkle_root', { session_id: 'A-00001' }, 'ERR_SESSION_NOT_FOUND'],
  ]
  it.each(missing)('%s %o gives %s', async (tool, args, code) => {
    await expectFailure(app, tool, args, code)
  })
})

describe('audit_verify_chain', () => {
  it('needs to know what to verify', async () => {
    await expectFailure(app, 'audit_verify_chain', {}, 'ERR_INVALID_INPUT', { field: 'session_id' })
    await expectFailure(app, 'audit_verify_chain', { full_trace: true }, 'ERR_INVALID_INPUT')
  })

  it('answers what the document says, and the hashes when asked', async () => {
    const thought = await think(app, 'T-0001', 'one')
    await move(app, 'T-0001', 'todo')
    const plain = await app.ask<Answer>('audit_verify_chain', { task_id: 'T-0001' })
    expect(plain).toEqual({
      task_id: 'T-0001',
      chain_valid: true,
      total_records: 3,
      integrity_score: 100,
      broken_links: [],
      verified_at: new Date(clock.nowMs()).toISOString(),
      log: { size: 3, valid: true, first_bad_seq: null, checkpoint: expect.stringMatching(/^(matched|none)$/) },
    })
    const traced = await app.ask<{ trace: Answer[] }>('audit_verify_chain', { task_id: 'T-0001', full_trace: true })
    expect(traced.trace.map(({ kind }) => kind)).toEqual(['task_created', 'thought_recorded', 'task_updated'])
    expect(traced.trace[1]).toMatchObject({ hash: thought.hash, position: 2, log_seq: 1, task_id: 'T-0001' })
    expect(traced).toMatchObject({ trace_truncated: false })
  })

  it('finds a task without thoughts in order, and an empty session', async () => {
    expect(await verify(app, { task_id: 'T-0001' })).toMatchObject({ total_records: 1, chain_valid: true })
    expect(await verify(app, { session_id: await start() })).toMatchObject({ total_records: 0, integrity_score: 100 })
  })

  it('gives way to other calls while it works, and stops when it is cancelled', async () => {
    for (let index = 0; index < 1_200; index += 200) {
      await Promise.all(Array.from({ length: 200 }, (_, at) => think(app, 'T-0001', `${index + at}`)))
    }
    // Its tools are loaded with the first call.
    await app.call('server_ping')
    const progress: number[] = []
    const abort = new AbortController()
    const order: string[] = []
    const verifying = app
      .call('audit_verify_chain', { task_id: 'T-0001' }, undefined, {
        progress: (update) => progress.push(update.progress),
      })
      .then((answer) => order.push(answer.isError ? 'failed' : 'verified'))
    const pinging = app.call('server_ping').then(() => order.push('pinged'))
    await Promise.all([verifying, pinging])
    expect(order).toEqual(['pinged', 'verified'])
    expect(progress).toEqual([500, 1_000, 1_201])
    const cancelled = app.call('audit_verify_chain', { task_id: 'T-0001' }, undefined, {
      signal: abort.signal,
      progress: () => abort.abort(),
    })
    expect((await cancelled).failure?.code).toBe('ERR_CANCELLED')
  })
})
