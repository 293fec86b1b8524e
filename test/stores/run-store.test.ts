import { expect, it } from 'vitest'
import compiled from '../../src/stores/sql/compiled-statements.json' with { type: 'json' }
import { openTestApp } from '../support/app.ts'

/** Members see their own runs alone, so their lists must not take longer for what others have. */
it.each([
  ['list', 'SELECT * FROM runs WHERE tenant = ? AND kind = ? AND owner = ? ORDER BY started_at DESC, id DESC LIMIT 10'],
  ['count', 'SELECT count(*) FROM runs WHERE tenant = ? AND kind = ? AND owner = ?'],
])('the %s of one owner’s runs looks at no others', async (_, sql) => {
  await using app = await openTestApp()
  const plan = app.behindItsBack((db) => db.prepare(`EXPLAIN QUERY PLAN ${sql}`).all('local', 'workflow', 'key:x'))
  const steps = plan.map(({ detail }) => String(detail)).join('; ')
  expect(steps).toContain('tenant=? AND kind=? AND owner=?')
  expect(steps).not.toContain('TEMP B-TREE')
})

/** Few runs are open at a time, whatever their owner, and many have ended. */
it('the list of runs that wait looks at no run that has ended', async () => {
  await using app = await openTestApp()
  const { sql, bind } = compiled.sqlite['run-store.listFamily(tp)']
  const plan = app.behindItsBack((db) => db.prepare(`EXPLAIN QUERY PLAN ${sql}`).all(...bind.map(() => 1)))
  const steps = plan.map(({ detail }) => String(detail)).join('; ')
  expect(steps).toContain('runs_open_by_start')
  expect(steps).not.toContain('TEMP B-TREE')
})
