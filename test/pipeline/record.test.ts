import { createHash } from 'node:crypto'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { limits } from '../../src/contract/limits.ts'
import { localOwner } from '../../src/contract/principal.ts'
import { canonicalJson } from '../../src/kernel/canonical-json.ts'
import { installFaultPlan } from '../../src/kernel/fault.ts'
import { callerOf, type LogRecord, movableClock, openTestApp, type TestApp } from '../support/app.ts'
import { newTask, think } from '../support/ledger.ts'

/** Every call is in the log exactly once, with who, what, the digests, how it ended and how long it took. */
let app: TestApp
beforeEach(async () => {
  app = await openTestApp()
})
afterEach(async () => {
  installFaultPlan(undefined)
  await app[Symbol.asyncDispose]()
})

const sha256 = (text: string): string => `sha256:${createHash('sha256').update(text, 'utf8').digest('hex')}`
const tools = (records: readonly LogRecord[]) => records.map(({ tool, outcome }) => `${tool} ${outcome}`)

describe('the record of a call', () => {
  it('says who called what, with which digests, and how it ended', async () => {
    const agent = await app.keyCaller({ name: 'agent-alice', role: 'editor' })
    const args = { project: 'p', title: 'ä', labels: ['b', 'a'], estimate_hours: 1.5 }
    const answer = await app.call('task_create', args, agent)
    const record = (await app.log()).at(-1)!
    expect(record).toEqual({
      v: 1,
      kind: 'call',
      call_id: expect.stringMatching(/^c_/),
      at: expect.stringMatching(/Z$/),
      tenant: 'local',
      principal: {
        actor: 'agent-alice',
        kind: 'key',
        role: 'editor',
        tier: 'user',
        key_id: agent.principal.keyId,
      },
      door: 'http',
      tool: 'task_create',
      input: sha256('{"estimate_hours":1.5,"labels":["b","a"],"project":"p","title":"ä"}'),
      output: sha256(answer.json),
      outcome: 'ok',
      duration_ms: expect.any(Number),
      effects: [
        { kind: 'project_created', body: expect.objectContaining({ project: 'p' }) },
        {
          kind: 'task_created',
          subject: 'task:1',
          hash: expect.stringMatching(/^[0-9a-f]{64}$/),
          body: expect.objectContaining({ task_id: 'T-0001', title: 'ä', labels: ['b', 'a'] }),
        },
      ],
    })
    expect(record.duration_ms).toBeGreaterThanOrEqual(0)
    const trail = record.effects![1]!
    expect(trail.hash).toBe(createHash('sha256').update(canonicalJson(trail.body)).digest('hex'))
  })

  it('says which user acts and in which conversation, and which rule refused the call', async () => {
    const context = { name: 'reader', description: '', capabilities: [{ toolPattern: 'task_get' }], denyList: [] }
    const caller = callerOf({
      ...localOwner,
      kind: 'user',
      user: 'u-1',
      conversationId: 'conv-7',
      securityContexts: [context],
    })
    await app.call('task_list', {}, caller)
    const refused = (await app.lastCall())!
    expect(refused.principal).toMatchObject({ user: 'u-1', conversation_id: 'conv-7' })
    expect(refused).toMatchObject({
      outcome: 'refused',
      code: 'ERR_POLICY_VIOLATION',
      decisions: [{ stage: 'invocation-policy', verdict: 'deny', policy: 'reader', reason: 'ToolNotAllowed' }],
    })
    await app.call('task_list')
    expect(await app.lastCall()).not.toHaveProperty('decisions')
  })

  it('measures how long it took', async () => {
    const clock = movableClock()
    await using own = await openTestApp({ clock })
    await newTask(own)
    const waiting = own.call('task_get', { task_id: 'T-0001' })
    clock.advance(2_500)
    await waiting
    expect((await own.log()).at(-1)!.duration_ms).toBeGreaterThanOrEqual(2_500)
  })

  it('is there once for every call of every kind, in the order in which they were answered', async () => {
    await newTask(app)
    await app.call('task_get', { task_id: 'T-0001' })
    await app.call('task_get', { task_id: 'T-9999' })
    await app.call('task_get', { nonsense: 1 })
    await app.call('no_such_tool', {})
    await app.call('task_update', { task_id: 'T-0001', status: 'done' })
    await app.call('run_tool', { tool_name: 'task_list', tool_args: {} })
    await app.call('search_tools', { query: 'task' })
    await app.call('server_ping', {})
    await think(app, 'T-0001', 'one')
    expect(tools(await app.log())).toEqual([
      'task_create ok',
      'task_get ok',
      'task_get refused',
      'task_get refused',
      'no_such_tool refused',
      'task_update refused',
      'task_list ok',
      'search_tools ok',
      'server_ping ok',
      'thought_record ok',
    ])
    const records = await app.log()
    expect(new Set(records.map(({ call_id }) => call_id)).size).toBe(records.length)
    expect(records[6]).toMatchObject({ tool: 'task_list', via: 'run_tool' })
    expect(records.filter((record) => record.via !== undefined)).toHaveLength(1)
  })

  it('of a refused call has the code and the digest of its arguments, and no answer', async () => {
    const member = await app.keyCaller()
    const refused: readonly [string, unknown, string][] = [
      ['task_get', { task_id: 'T-9999' }, 'ERR_TASK_NOT_FOUND'],
      ['task_get', { colour: 'red' }, 'ERR_INVALID_INPUT'],
      ['api_key_list', { tenant: 'x' }, 'ERR_PERMISSION_DENIED'],
      ['nothing', { a: [1] }, 'ERR_UNKNOWN_TOOL'],
    ]
    for (const [name, args, code] of refused) {
      await app.call(name, args, member)
      const record = (await app.log()).at(-1)!
      expect(record).toMatchObject({ tool: name, outcome: 'refused', code, input: sha256(canonicalJson(args)) })
      expect(record).not.toHaveProperty('output')
      expect(record).not.toHaveProperty('effects')
    }
    await app.call('task_get', { task_id: '\ud800' }, member)
    expect((await app.log()).at(-1)).toMatchObject({ input: 'unread', code: 'ERR_INVALID_INPUT' })
  })

  it('is on disk together with what the call did, or neither is', async () => {
    await newTask(app)
    const before = await app.log()
    let writes = 0
    installFaultPlan((point) => {
      if (point === 'store.write' && ++writes === 3) throw new Error('the disk is full')
    })
    const answer = await app.call('thought_record', { task_id: 'T-0001', type: 'risk', content: 'lost' })
    installFaultPlan(undefined)
    expect(answer.isError).toBe(true)
    const after = (await app.log()).slice(before.length)
    expect(after.filter((record) => record.effects !== undefined)).toEqual([])
    expect(await app.ask('thought_record_list')).toMatchObject({ thought_count: 0 })
  })

  it('of a call that changes something is there before the answer, also on the disk', async () => {
    await newTask(app)
    const seen = app.behindItsBack((db) => db.prepare('SELECT count(*) AS n FROM log_entries').get())
    expect(seen).toEqual({ n: 1 })
  })

  it('of a call that reads follows soon, in order, unless strict', async () => {
    await newTask(app)
    await app.call('task_list', {})
    const onDisk = () => app.behindItsBack((db) => db.prepare('SELECT count(*) AS n FROM log_entries').get()!['n'])
    expect(onDisk()).toBe(1)
    await newTask(app)
    expect(tools(await app.log())).toEqual(['task_create ok', 'task_list ok', 'task_create ok'])
    await using strict = await openTestApp({ config: { 'audit.read_records': 'strict' } })
    await strict.call('task_list', {})
    expect(strict.behindItsBack((db) => db.prepare('SELECT count(*) AS n FROM log_entries').get())).toEqual({ n: 1 })
  })

  it('of reads that follow each other is one entry, and says of each what its own would say', async () => {
    await newTask(app)
    await app.call('task_get', { task_id: 'T-0001' })
    const answer = await app.call('task_list', { limit: 1 })
    await app.call('task_get', { task_id: 'T-9999' })
    await app.call('server_ping', {})
    const flat = await app.log()
    expect(tools(flat)).toEqual(['task_create ok', 'task_get ok', 'task_list ok', 'task_get refused', 'server_ping ok'])
    const texts = app.behindItsBack((db) => db.prepare('SELECT record FROM log_entries ORDER BY seq').all())
    const entries = texts.map((row) => JSON.parse(String(row['record'])) as Record<string, unknown>)
    expect(entries.map(({ kind }) => kind)).toEqual(['call', 'reads', 'call', 'call'])
    const { calls, ...head } = entries[1]!
    expect(head).toEqual({ v: 2, kind: 'reads', tenant: 'local', at: flat[1]!.at })
    expect(Object.keys((calls as object[])[1]!)).not.toContain('principal')
    expect(flat[2]).toEqual({
      v: 1,
      kind: 'call',
      tenant: 'local',
      call_id: expect.stringMatching(/^c_/),
      at: expect.stringMatching(/Z$/),
      principal: flat[0]!.principal,
      door: 'stdio',
      tool: 'task_list',
      input: sha256('{"limit":1}'),
      output: sha256(answer.json),
      outcome: 'ok',
      duration_ms: expect.any(Number),
    })
  })

  it('of a read is not lost with others that the store did not take', async () => {
    await newTask(app)
    installFaultPlan((point) => {
      if (point === 'store.begin') throw new Error('the disk is gone')
    })
    await app.call('server_ping', {})
    await app.call('server_ping', {})
    expect(tools(await app.log())).toEqual(['task_create ok'])
    installFaultPlan(undefined)
    await app.call('task_list', {})
    expect(tools(await app.log())).toEqual(['task_create ok', 'task_list ok'])
  })

  it('of a read is there once when its commit happened and nobody could say so', async () => {
    let failed = false
    installFaultPlan((point) => {
      if (point !== 'store.commit.after' || failed) return
      failed = true
      throw new Error('nobody knows')
    })
    for (const name of ['server_ping', 'task_list', 'server_health']) await app.call(name, {})
    expect(tools(await app.log())).toEqual(['server_ping ok', 'task_list ok', 'server_health ok'])
    expect(failed).toBe(true)
  })

  it('of reads of several tenants is in the log of each, in order', async () => {
    const other = await app.keyCaller({ tenant: 'other' })
    for (let round = 0; round < 3; round++) {
      await app.call('task_list', {})
      await app.call('server_ping', {}, other)
      if (round === 1) await app.call('task_create', { title: 'x', project: 'p' }, other)
    }
    expect(tools(await app.log())).toEqual(['api_key_create ok', 'task_list ok', 'task_list ok', 'task_list ok'])
    expect(tools(await app.log('other'))).toEqual([
      'server_ping ok',
      'server_ping ok',
      'task_create ok',
      'server_ping ok',
    ])
  })

  it('is not lost when very many reads come at once', async () => {
    const count = limits.readRecordsPendingMax + 500
    await Promise.all(Array.from({ length: count }, () => app.call('server_ping', {})))
    expect(await app.log()).toHaveLength(count)
    const entries = app.behindItsBack((db) => Number(db.prepare('SELECT count(*) AS n FROM log_entries').get()!['n']))
    expect(entries).toBeGreaterThanOrEqual(count / limits.readRecordsGatheredMax)
    expect(entries).toBeLessThan(count / 16)
  })

  it('of a principal is in the log of its own tenant only', async () => {
    const other = await app.keyCaller({ tenant: 'other' })
    await app.call('task_list', {}, other)
    await app.call('task_get', { task_id: 'T-0001' }, other)
    expect(tools(await app.log('other'))).toEqual(['task_list ok', 'task_get refused'])
    expect(tools(await app.log())).toEqual(['api_key_create ok'])
  })
})
