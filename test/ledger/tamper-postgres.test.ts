import { afterEach, beforeEach, describe, expect, inject, it } from 'vitest'
import { checkState } from '../../src/app/check-state.ts'
import { openTestApp, type TestApp } from '../support/app.ts'
import { documentTree, move, newTask, think, verify } from '../support/ledger.ts'
import { createDatabase, withClient } from '../support/postgres.ts'

/** The same verifier over PostgreSQL: the rules are tested with SQLite, here is that what it reads is the same. */
let app: TestApp
let url: string
beforeEach(async () => {
  url = await createDatabase(inject('postgresUrl'))
  app = await openTestApp({ config: { database_url: url, 'audit.checkpoint_interval_ms': 3_600_000 } })
  await newTask(app)
})
afterEach(() => app[Symbol.asyncDispose]())

const alter = (sql: string) => withClient(url, (client) => client.query(sql))
const positions = async (args: object) => (await verify(app, args)).broken_links.map((link) => link.position)

describe('a chain in PostgreSQL', () => {
  it('verifies, and names what was altered behind the back of the program', async () => {
    for (let index = 0; index < 5; index++) {
      await think(app, 'T-0001', `thought ${index}: Größe, 数, 😀`, { metadata: { index, ключ: [1.5, null] } })
      await app.ask('task_update', { task_id: 'T-0001', progress: index + 1 })
    }
    expect(await verify(app, { task_id: 'T-0001' })).toMatchObject({
      chain_valid: true,
      total_records: 11,
      log: { valid: true },
    })
    await alter(`UPDATE thoughts SET content = 'altered' WHERE number = 2`)
    expect(await positions({ task_id: 'T-0001' })).toEqual([4])
    await alter(`DELETE FROM thoughts WHERE number = 4`)
    expect(await positions({ task_id: 'T-0001' })).toEqual([4, 8])
    await alter(`UPDATE log_entries SET record = replace(record, 'owner', 'mallory') WHERE seq = 4`)
    expect(await positions({ task_id: 'T-0001' })).toEqual([4, 5, 8])
    await app.stop()
    const { findings } = await checkState(app.config)
    expect(findings.map(({ table, row }) => `${table} ${row}`)).toEqual(
      expect.arrayContaining(['thoughts Θ-0002', 'thoughts Θ-0004', 'log_entries 4']),
    )
  })

  it('freezes a session and notices another root in its row', async () => {
    const { session_id } = await app.ask('audit_session_start', { task_id: 'T-0001', auditor_id: 'ann', scope: 'deep' })
    const thoughts = [await think(app, 'T-0001', 'one'), await think(app, 'T-0001', 'two')]
    await move(app, 'T-0001', 'todo')
    const { merkle_root: root } = await app.ask('merkle_finalize', { session_id })
    const trace = await app.ask<{ trace: { hash: string }[] }>('audit_verify_chain', { session_id, full_trace: true })
    expect(trace.trace.map(({ hash }) => hash).slice(0, 2)).toEqual(thoughts.map(({ hash }) => hash))
    expect(documentTree(trace.trace.map(({ hash }) => hash)).root).toBe(root)
    await alter(`UPDATE audit_sessions SET merkle_root = '${'0'.repeat(64)}'`)
    expect((await verify(app, { session_id })).broken_links).toEqual([
      { position: 4, expected_hash: root, actual_hash: '0'.repeat(64) },
    ])
  })
})
