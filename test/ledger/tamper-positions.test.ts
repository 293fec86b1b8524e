import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { TestApp } from '../support/app.ts'
import { findingsOf } from '../support/stored-state.ts'
import { knownLog } from '../support/tamper-log.ts'

/** An attacker moves rows of the database file to where the program does not look for them. */
let app: TestApp
beforeEach(async () => {
  app = await knownLog()
})
afterEach(() => app[Symbol.asyncDispose]())

describe('a row that was moved to where none of its tenant belongs', () => {
  const findings = async () =>
    (await findingsOf(app)).map((finding) => {
      const { table, rule } = finding as { table: string; rule: string }
      return `${table} ${rule}`
    })

  it.each([
    ['the last entry', 'UPDATE log_entries SET row_id = 5 WHERE seq = 12', 'log_entries log.seq'],
    ['the first entry', 'UPDATE log_entries SET row_id = 5 WHERE seq = 0', 'log_entries log.seq'],
    ['an entry by its number only', 'UPDATE log_entries SET seq = 0 WHERE seq = 12', 'log_entries log.seq'],
    ['the last thought', 'UPDATE thoughts SET row_id = 5 WHERE number = 7', 'thoughts row.extra'],
    ['a thought', 'UPDATE thoughts SET row_id = 5 WHERE number = 2', 'thoughts row.missing'],
  ])('is found by the checker: %s', async (_what, sql, finding) => {
    expect(await findings()).toEqual([])
    app.behindItsBack((db) => expect(db.prepare(sql).run().changes).toBe(1))
    expect(await findings()).toContain(finding)
    expect(await app.call('audit_verify_chain', { task_id: 'T-0001' })).toMatchObject({ isError: false })
  })
})
