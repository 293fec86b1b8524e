import type { DatabaseSync } from 'node:sqlite'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { openTestApp, type TestApp } from '../support/app.ts'
import { move, newTask, think, verify } from '../support/ledger.ts'
import { knownLog, RECORDS } from '../support/tamper-log.ts'

/** An attacker alters the row of a task, and leaves the log alone. */
let app: TestApp
afterEach(() => app[Symbol.asyncDispose]())

const setTask = (set: string) => (db: DatabaseSync) => db.exec(`UPDATE tasks SET ${set} WHERE number = 1`)

const alterations: readonly [string, (db: DatabaseSync) => void][] = [
  ['title', setTask("title = 'another'")],
  ['description', setTask("description = 'another'")],
  ['status', setTask("status = 'done'")],
  ['priority', setTask('priority_rank = 3')],
  ['priority, to none', setTask('priority_rank = 9')],
  ['progress', setTask('progress = 99')],
  ['assignee', setTask("assignee = 'mallory'")],
  ['labels', setTask(`labels = '["hot"]'`)],
  ['labels, to what cannot be read', setTask("labels = '['")],
  ['estimate', setTask('estimate_hours = 3')],
  ['reason', setTask("blocked_reason = 'x'")],
  ['project', setTask("project = 'elsewhere'")],
  ['place in the project', setTask('sequence = 7')],
  ['time of its creation', setTask('created_at = created_at + 1')],
  ['time of its creation, to none', setTask('created_at = 9007199254740991')],
  ['creator', setTask("created_by = 'mallory'")],
  ['time of its update', setTask('updated_at = updated_at + 1')],
  ['updater', setTask("updated_by = 'mallory'")],
  ['parent', setTask('parent_number = 2')],
  ['dependencies', (db) => db.exec("INSERT INTO task_dependencies VALUES ('local', 1, 2)")],
]

describe('the row of a task', () => {
  beforeEach(async () => {
    app = await knownLog()
  })

  it('is what its records made of it', async () => {
    expect(await verify(app, { task_id: 'T-0001' })).toMatchObject({ chain_valid: true, total_records: RECORDS })
  })

  it.each(alterations)('is one broken record when its %s was altered', async (_what, alter) => {
    app.behindItsBack(alter)
    const verdict = await verify(app, { task_id: 'T-0001' })
    expect(verdict).toMatchObject({
      chain_valid: false,
      total_records: RECORDS + 1,
      log: { valid: true, first_bad_seq: null, checkpoint: 'matched' },
    })
    expect(verdict.broken_links.map(({ position }) => position)).toEqual([RECORDS + 1])
    expect(await verify(app, { task_id: 'T-0002' })).toMatchObject({ chain_valid: true, integrity_score: 100 })
    expect(await app.ask('thought_record_list', { task_id: 'T-0001', verify_chain: true })).toMatchObject({
      chain_valid: true,
    })
  })

  it('is judged by the log first: where that does not hold, nothing follows from it', async () => {
    app.behindItsBack((db) => {
      setTask("title = 'another'")(db)
      db.exec("UPDATE log_entries SET record = replace(record, 'first', 'furst') WHERE seq = 2")
    })
    expect(await verify(app, { task_id: 'T-0001' })).toMatchObject({ chain_valid: false, total_records: RECORDS })
  })
})

it('an audit session looks at the rows of all its tasks, with what happened before and after it', async () => {
  app = await openTestApp()
  await newTask(app)
  await newTask(app, { parent_id: 'T-0001' })
  await move(app, 'T-0002', 'todo')
  await app.ask('audit_session_start', { task_id: 'T-0001', auditor_id: 'ann', scope: 'deep' })
  await think(app, 'T-0001', 'one')
  await app.ask('merkle_finalize', { session_id: 'A-0001' })
  await app.ask('task_update', { task_id: 'T-0002', progress: 30 })
  expect(await verify(app, { session_id: 'A-0001' })).toMatchObject({ chain_valid: true, total_records: 1 })
  app.behindItsBack((db) => db.exec('UPDATE tasks SET progress = 31 WHERE number = 2'))
  expect(await verify(app, { session_id: 'A-0001' })).toMatchObject({ chain_valid: false, total_records: 2 })
})
