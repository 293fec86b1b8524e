import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openTestApp, type TestApp } from '../support/app.ts'
import { ended, eventsOf } from '../support/workflows.ts'
import recorded from './recorded-run.json' with { type: 'json' }

/**
 * A run that an earlier program began and left in the middle, with its journal as that program wrote it. A change of the
 * interpreter, the templates or the keys of steps must still be able to go on with it.
 */
let app: TestApp
const id = recorded.run.id
beforeAll(async () => {
  app = await openTestApp({ config: { 'rate_limits.enabled': false } })
  app.behindItsBack((db) => {
    for (const [table, rows] of [
      ['runs', [recorded.run]],
      ['run_journal', recorded.journal],
    ] as const) {
      for (const row of rows) {
        const columns = Object.keys(row)
        db.prepare(`INSERT INTO ${table} (${columns.join()}) VALUES (${columns.map(() => '?').join()})`).run(
          ...Object.values(row),
        )
      }
    }
  })
  app = await app.restart()
})
afterAll(() => app[Symbol.asyncDispose]())

describe('a journal of an earlier program', () => {
  it('shows where the run was', async () => {
    expect(await app.ask('aegis.workflow.executions.get', { execution_id: id })).toMatchObject({
      status: 'running',
      current_state: 'AGAIN',
      input: { colour: 'blue' },
      blackboard: { colour: 'blue', part: { text: '0!' }, ASK: { response: 'no' }, human: { response: 'no' } },
      state_outputs: { TRY: { exit_code: 0 }, BOX: { overall_success: true, succeeded: 1, failed: 1 } },
    })
  })

  it('is gone on with: nothing recorded is done again, and the end is what it would have been', async () => {
    expect(await app.ask('aegis.workflow.signal', { execution_id: id, response: 'green' })).toMatchObject({
      signalled: true,
    })
    expect(await ended(app, id)).toMatchObject({
      status: 'completed',
      current_state: 'END',
      output: { colour: 'green', part: '0!', one: 'fine', visits: 0 },
    })
    const events = await eventsOf(app, id)
    const before = recorded.journal.length
    expect(events.slice(0, before).map(({ event_type, aliases }) => aliases?.[0] ?? event_type)).toEqual(
      recorded.journal.map(({ type }) => type),
    )
    const states = events.slice(before).filter(({ event_type }) => event_type.startsWith('state_'))
    expect(states.map(({ event_type, payload }) => [event_type, payload['state']])).toEqual([
      ['state_exited', 'AGAIN'],
      ['state_entered', 'END'],
      ['state_exited', 'END'],
    ])
  })
})
