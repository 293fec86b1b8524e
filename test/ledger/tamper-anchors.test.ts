import { execFileSync } from 'node:child_process'
import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import type { DatabaseSync } from 'node:sqlite'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { checkState } from '../../src/app/check-state.ts'
import { openTestApp, type TestApp } from '../support/app.ts'
import { move, newTask, think, verify } from '../support/ledger.ts'
import { cutTail, knownLog, LOG_SIZE, RECORDS, rebuildTree, removeEntries, rewrite } from '../support/tamper-log.ts'

/** An attacker alters what holds the records together: the checkpoint outside the store, or the row of an audit session. */
let app: TestApp
afterEach(() => app[Symbol.asyncDispose]())

describe('the checkpoint', () => {
  let file: string
  beforeEach(async () => {
    app = await knownLog()
    file = join(app.dataDir, 'checkpoints', 'local.checkpoint')
  })

  const edits: readonly [string, (note: string) => string][] = [
    ['its size', (note) => note.replace(/^13$/m, '12')],
    ['its root', (note) => note.replace(/^13\n./m, (text) => (text.endsWith('A') ? '13\nB' : '13\nA'))],
    ['its signature', (note) => `${note.slice(0, -6)}AAAA=\n`],
    ['all of it', () => 'nothing\n'],
    ['all of it, to nothing', () => ''],
  ]

  it('is not missed when it is the first of its tenant, and kept while the state is checked', async () => {
    const { dataDir, config } = app
    await app.stop()
    // The checker has listed the checkpoints when it opens this one, and waits there.
    const gate = join(dataDir, 'checkpoints', 'gate.checkpoint')
    execFileSync('mkfifo', [gate])
    renameSync(file, `${file}-later`)
    const checked = checkState(config)
    const opened = await open(gate, 'w')
    renameSync(`${file}-later`, file)
    await opened.close()
    expect((await checked).findings.filter(({ tenant }) => tenant === 'local')).toEqual([])
    rmSync(gate)
    app = await openTestApp({ dataDir })
  })

  it.each(edits)('is missed when %s was altered', async (_what, edit) => {
    const note = readFileSync(file, 'utf8')
    expect(edit(note)).not.toBe(note)
    writeFileSync(file, edit(note))
    const verdict = await verify(app, { task_id: 'T-0001' })
    expect(verdict).toMatchObject({
      chain_valid: false,
      total_records: RECORDS + 1,
      integrity_score: (100 * RECORDS) / (RECORDS + 1),
      log: { size: LOG_SIZE, valid: false, first_bad_seq: null, checkpoint: 'mismatch' },
    })
    expect(verdict.broken_links.map((link) => link.position)).toEqual([RECORDS + 1])
    await app.stop()
    expect(readFileSync(file, 'utf8'), 'the evidence stays').toBe(edit(note))
    const { findings } = await checkState(app.config)
    expect(findings.map(({ table, row }) => `${table} ${row}`)).toContain('checkpoints local')
  })

  it('is missed when it is gone, unless there never was one', async () => {
    rmSync(file)
    expect(await verify(app, { task_id: 'T-0001' })).toMatchObject({
      chain_valid: false,
      log: { valid: false, first_bad_seq: null, checkpoint: 'mismatch' },
    })
    app.behindItsBack((db) => db.exec('DELETE FROM log_anchors'))
    expect(await verify(app, { task_id: 'T-0001' })).toMatchObject({
      chain_valid: true,
      integrity_score: 100,
      log: { valid: true, checkpoint: 'none' },
    })
  })

  it('is missed by the server, which then does nothing more for that tenant', async () => {
    const other = await app.keyCaller({ tenant: 'other', role: 'admin' })
    app = await app.restart()
    writeFileSync(file, 'nothing\n')
    for (const tool of ['task_list', 'log_checkpoint', 'task_get'])
      expect(await app.refusal(tool, tool === 'task_get' ? { task_id: 'T-0001' } : {})).toMatchObject({
        code: 'ERR_LOG_INVALID',
        details: { tenant: 'local' },
      })
    expect(await app.ask('task_list', {}, other)).toMatchObject({ tasks: [] })
    expect(await app.ask('log_checkpoint', {}, other)).toMatchObject({ size: expect.any(Number) })
    expect(await app.refusal('log_recover', { reason: 'x' }, other)).toMatchObject({ code: 'ERR_PERMISSION_DENIED' })
    await app.ask('log_recover', { reason: 'the file was damaged' })
    expect(await app.ask('log_checkpoint')).toMatchObject({ size: expect.any(Number) })
  })

  it('of another tenant is recovered by the operator, and both logs have it', async () => {
    const other = await app.keyCaller({ tenant: 'other', role: 'admin' })
    await app.ask('task_list', {}, other)
    app = await app.restart()
    writeFileSync(join(app.dataDir, 'checkpoints', 'other.checkpoint'), 'nothing\n')
    expect(await app.refusal('task_list', {}, other)).toMatchObject({ code: 'ERR_LOG_INVALID' })
    expect(await app.ask('task_list')).toMatchObject({ tasks: expect.any(Array) })
    expect(await app.ask('log_recover', { reason: 'damaged' })).toMatchObject({ recovered: [{ tenant: 'other' }] })
    expect(await app.ask('task_list', {}, other)).toMatchObject({ tasks: [] })
    for (const tenant of ['local', 'other']) {
      const kinds = (await app.log(tenant)).flatMap(({ effects = [] }) => effects.map(({ kind }) => kind))
      expect(kinds).toContain('log_recovered')
    }
    await app.stop()
    expect((await checkState(app.config)).findings).toEqual([])
  })

  it('keeps its evidence, and the health says so, when the tail is cut off while the program runs', async () => {
    await app.stop()
    app = await openTestApp({ dataDir: app.dataDir, config: { 'audit.checkpoint_interval_ms': 10 } })
    await think(app, 'T-0001', 'seventh')
    await vi.waitFor(async () => expect(readFileSync(file, 'utf8').split('\n')[1]).toBe(String(LOG_SIZE + 1)), {
      timeout: 180_000,
    })
    expect(await app.ask('server_health')).toMatchObject({ status: 'ok' })
    app.behindItsBack((db) => cutTail(db, 10))
    await vi.waitFor(async () => expect(await app.ask('server_health')).toMatchObject({ status: 'degraded' }), {
      timeout: 180_000,
    })
    const { problems } = await app.ask<{ problems: string[] }>('server_health')
    expect(problems.join()).toMatch(/does not extend its last checkpoint/)
    expect((await verify(app, { task_id: 'T-0001' })).log).toMatchObject({ valid: false, checkpoint: 'mismatch' })
    const evidence = readFileSync(file, 'utf8')
    await app.stop()
    expect(readFileSync(file, 'utf8')).toBe(evidence)
  })

  it('is not ahead of a snapshot that began before it was signed', async () => {
    await app.stop()
    app = await openTestApp({ dataDir: app.dataDir, config: { 'audit.checkpoint_interval_ms': 10 } })
    const verdicts: Promise<{ chain_valid: boolean }>[] = []
    for (let round = 0; round < 60; round++) {
      verdicts.push(verify(app, { task_id: 'T-0001' }))
      await think(app, 'T-0002', `round ${round}`)
    }
    expect((await Promise.all(verdicts)).filter((verdict) => !verdict.chain_valid)).toEqual([])
  })
})

describe('an audit session', () => {
  /** T-0001 with its child T-0002; the deep session A-0001 has 6 records and is frozen, with others before and after. */
  beforeEach(async () => {
    app = await openTestApp({ config: { 'audit.checkpoint_interval_ms': 3_600_000 } })
    await newTask(app)
    await newTask(app, { parent_id: 'T-0001' })
    await think(app, 'T-0001', 'before')
    await app.ask('audit_session_start', { task_id: 'T-0001', auditor_id: 'ann', scope: 'deep' })
    await think(app, 'T-0001', 'one')
    await move(app, 'T-0001', 'todo')
    await think(app, 'T-0002', 'two')
    await app.ask('task_list')
    await think(app, 'T-0001', 'three')
    await newTask(app, { parent_id: 'T-0002' })
    await think(app, 'T-0003', 'four')
    await app.ask('merkle_finalize', { session_id: 'A-0001' })
    await think(app, 'T-0001', 'after')
    app = await app.restart()
  })

  const setSession = (set: string) => (db: DatabaseSync) => db.exec(`UPDATE audit_sessions SET ${set}`)
  const SESSION_RECORDS = 6
  const START_SEQ = 3
  const END_SEQ = 11

  it('verifies as it is', async () => {
    const verdict = await app.ask('audit_verify_chain', { session_id: 'A-0001', full_trace: true })
    expect(verdict).toMatchObject({ chain_valid: true, total_records: SESSION_RECORDS, integrity_score: 100 })
    expect(verdict['trace']).toMatchObject([
      { position: 1, kind: 'thought_recorded', task_id: 'T-0001', log_seq: START_SEQ + 1 },
      { position: 2, kind: 'task_updated', task_id: 'T-0001' },
      { position: 3, kind: 'thought_recorded', task_id: 'T-0002' },
      { position: 4, kind: 'thought_recorded', task_id: 'T-0001' },
      { position: 5, kind: 'task_created', task_id: 'T-0003' },
      { position: 6, kind: 'thought_recorded', task_id: 'T-0003', log_seq: END_SEQ - 1 },
    ])
  })

  const alterations: readonly [string, (db: DatabaseSync) => void][] = [
    ['frozen root', setSession(`merkle_root = '${'0'.repeat(64)}'`)],
    ['number of leaves', setSession('leaf_count = 7')],
    ['depth', setSession('tree_depth = 9')],
    ['time of the freeze', setSession('finalized_at = finalized_at + 1')],
    ['auditor', setSession("auditor_id = 'mallory'")],
    ['reason', setSession("reason = 'none'")],
    ['time of the start to nonsense', setSession("started_at = 'soon'")],
  ]

  it.each(alterations)('does not verify with another %s', async (_what, tamper) => {
    app.behindItsBack(tamper)
    const verdict = await verify(app, { session_id: 'A-0001' })
    expect(verdict).toMatchObject({
      chain_valid: false,
      total_records: SESSION_RECORDS + 1,
      integrity_score: (100 * SESSION_RECORDS) / (SESSION_RECORDS + 1),
      log: { valid: true },
    })
    expect(verdict.broken_links.map((link) => link.position)).toEqual([SESSION_RECORDS + 1])
    expect(verdict.broken_links[0]!.expected_hash).not.toBe(verdict.broken_links[0]!.actual_hash)
    await app.stop()
    const { findings } = await checkState(app.config)
    expect(findings.map(({ table, row }) => `${table} ${row}`)).toContain('sessions A-0001')
  })

  const otherScopes: readonly [string, (db: DatabaseSync) => void][] = [
    ['an earlier start', setSession('start_seq = 1')],
    ['a later end', setSession('end_seq = 99')],
    ['another task', setSession('task_number = 2')],
    ['another scope', setSession("scope = 'shallow'")],
    ['only one task', setSession('only_task_number = 1')],
    ['no freeze', setSession('finalized_at = NULL, end_seq = NULL, merkle_root = NULL')],
  ]

  it.each(otherScopes)('does not verify when its row was given %s', async (_what, tamper) => {
    app.behindItsBack(tamper)
    const verdict = await verify(app, { session_id: 'A-0001' })
    expect(verdict).toMatchObject({ chain_valid: false, log: { valid: true } })
    expect(verdict.broken_links).toHaveLength(1)
    expect(verdict.integrity_score).toBeLessThan(100)
  })

  it('gives the root that the log says beside the one in its row', async () => {
    const { merkle_root: root } = await app.ask('merkle_root', { session_id: 'A-0001' })
    app.behindItsBack(setSession("merkle_root = 'forged'"))
    const { broken_links } = await verify(app, { session_id: 'A-0001' })
    expect(broken_links).toEqual([{ position: 7, expected_hash: root, actual_hash: 'forged' }])
  })

  it('does not verify when its start or its end is gone from the log', async () => {
    app.behindItsBack((db) => removeEntries(db, `seq = ${END_SEQ}`))
    expect((await verify(app, { session_id: 'A-0001' })).broken_links.map((link) => link.position)).toEqual([7])
    app.behindItsBack((db) => removeEntries(db, `seq = ${START_SEQ}`))
    expect((await verify(app, { session_id: 'A-0001' })).broken_links.map((link) => link.position)).toEqual([7])
  })

  it('does not verify when log, tree and row agree on a root that is not that of the records', async () => {
    const { merkle_root: root } = await app.ask<{ merkle_root: string }>('merkle_root', { session_id: 'A-0001' })
    app.behindItsBack((db) => {
      setSession(`merkle_root = '${'0'.repeat(64)}'`)(db)
      rewrite(db, END_SEQ, (text) => text.replace(root, '0'.repeat(64)))
      rebuildTree(db)
    })
    rmSync(join(app.dataDir, 'checkpoints', 'local.checkpoint'))
    const verdict = await verify(app, { session_id: 'A-0001' })
    expect(verdict.broken_links).toEqual([{ position: 7, expected_hash: root, actual_hash: '0'.repeat(64) }])
  })

  it('counts its own records only: one altered inside is one, one altered outside is none', async () => {
    const alterThought = (content: string) => (db: DatabaseSync) =>
      db.prepare("UPDATE thoughts SET content = 'altered' WHERE content = ?").run(content)
    app.behindItsBack(alterThought('before'))
    app.behindItsBack(alterThought('after'))
    expect(await verify(app, { session_id: 'A-0001' })).toMatchObject({ chain_valid: true, integrity_score: 100 })
    app.behindItsBack(alterThought('two'))
    const verdict = await verify(app, { session_id: 'A-0001' })
    expect(verdict).toMatchObject({ total_records: 6, integrity_score: (100 * 5) / 6 })
    expect(verdict.broken_links.map((link) => link.position)).toEqual([3])
    expect(await app.ask('thought_record_list', { session_id: 'A-0001', verify_chain: true })).toMatchObject({
      thought_count: 4,
      chain_valid: false,
      invalid_links: [1],
    })
  })

  it('is judged for one of its tasks, and for one outside it', async () => {
    expect(await verify(app, { session_id: 'A-0001', task_id: 'T-0002' })).toMatchObject({
      chain_valid: true,
      total_records: 1,
    })
    await newTask(app)
    expect(await verify(app, { session_id: 'A-0001', task_id: 'T-0004' })).toMatchObject({
      chain_valid: true,
      total_records: 0,
      integrity_score: 100,
    })
  })

  it('does not verify when the tail after it is cut off: nothing shows that it is still the same log', async () => {
    app.behindItsBack((db) => cutTail(db, END_SEQ + 1))
    const verdict = await verify(app, { session_id: 'A-0001' })
    expect(verdict).toMatchObject({ chain_valid: false, total_records: 7, log: { first_bad_seq: END_SEQ + 1 } })
    expect(verdict.broken_links.map((link) => link.position)).toEqual([7])
  })
})
