import type { DatabaseSync } from 'node:sqlite'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { checkState } from '../../src/app/check-state.ts'
import { openTestApp, type TestApp } from '../support/app.ts'
import { documentHash, newTask, type Thought, think, verify } from '../support/ledger.ts'

/**
 * An attacker alters the thoughts in the database file while the program runs. The verifier must name exactly what was
 * altered, in the positions of the task's records (the creation of the task is the first) and of the thought chain.
 */
let app: TestApp
let thoughts: Thought[]

beforeEach(async () => {
  app = await openTestApp()
  const task = await newTask(app)
  await newTask(app, { title: 'another' })
  thoughts = []
  for (let index = 1; index <= 6; index++) {
    thoughts.push(await think(app, task, `thought ${index}`, { metadata: { index } }))
    await think(app, 'T-0002', `elsewhere ${index}`)
  }
})
afterEach(() => app[Symbol.asyncDispose]())

/** The first record of the task is its creation. */
const positionOf = (chainPosition: number): number => chainPosition + 1
const NEW_HASH = 'f'.repeat(64)

type Case = Readonly<{
  what: string
  tamper: (db: DatabaseSync) => void
  /** Chain positions that do not verify; 7 is one that never was. */
  broken: readonly number[]
  total?: number
  /** What the independent checker names. */
  named: string
}>

const update = (db: DatabaseSync, chainPosition: number, set: string, ...values: (string | number | null)[]): void => {
  const changed = db
    .prepare(`UPDATE thoughts SET ${set} WHERE tenant = 'local' AND task_number = 1 AND chain_position = ?`)
    .run(...values, chainPosition).changes
  if (changed !== 1) throw new Error('the row to alter is not there')
}

const remove =
  (...chainPositions: number[]) =>
  (db: DatabaseSync): void => {
    for (const position of chainPositions)
      db.prepare('DELETE FROM thoughts WHERE task_number = 1 AND chain_position = ?').run(position)
  }

/** Exchanges everything but the keys of two rows, or, with `column`, that column alone. */
function exchange(db: DatabaseSync, first: number, second: number, columns: readonly string[]): void {
  const read = (position: number) =>
    db.prepare('SELECT * FROM thoughts WHERE task_number = 1 AND chain_position = ?').get(position)!
  const [left, right] = [read(first), read(second)]
  const set = columns.map((column) => `${column} = ?`).join(', ')
  const values = (row: Record<string, unknown>) => columns.map((column) => row[column] as string | number | null)
  update(db, first, set, ...values(right))
  update(db, second, set, ...values(left))
}

const insert = (db: DatabaseSync, row: Partial<Record<string, string | number | null>>): void => {
  const base = db.prepare('SELECT * FROM thoughts WHERE task_number = 1 AND chain_position = 6').get()!
  const merged = {
    ...base,
    row_id: 2 ** 34 + 99,
    number: 99,
    chain_position: 7,
    log_seq: 999,
    hash: NEW_HASH,
    ...row,
  } as Record<string, string | number | null>
  const names = Object.keys(merged)
  db.prepare(`INSERT INTO thoughts (${names.join()}) VALUES (${names.map(() => '?').join()})`).run(
    ...Object.values(merged),
  )
}

const cases: readonly Case[] = [
  { what: 'its content', tamper: (db) => update(db, 3, "content = 'altered'"), broken: [3], named: 'thoughts Θ-0005' },
  {
    what: 'its content and its hash',
    tamper: (db) => {
      const altered = { ...thoughts[2]!, content: 'altered' }
      update(db, 3, 'content = ?, hash = ?', altered.content, documentHash(altered))
    },
    broken: [3],
    named: 'thoughts Θ-0005',
  },
  {
    what: 'its content, its hash and all the links after it',
    tamper: (db) => {
      let previous = thoughts[1]!.hash
      for (const thought of thoughts.slice(2)) {
        const altered = { ...thought, content: `${thought.content}!`, previous_hash: previous }
        previous = documentHash(altered)
        const { content, previous_hash: link } = altered
        update(db, thought.chain_position, 'content = ?, previous_hash = ?, hash = ?', content, link, previous)
      }
    },
    broken: [3, 4, 5, 6],
    named: 'thoughts Θ-0005',
  },
  {
    what: 'a field outside the hash of the document',
    tamper: (db) => update(db, 4, `metadata = '{"index":99}'`),
    broken: [4],
    named: 'thoughts Θ-0007',
  },
  {
    what: 'its author',
    tamper: (db) => update(db, 1, "recorded_by = 'mallory'"),
    broken: [1],
    named: 'thoughts Θ-0001',
  },
  { what: 'its time', tamper: (db) => update(db, 6, 'recorded_at = recorded_at + 1'), broken: [6], named: 'Θ-0011' },
  { what: 'its place in the log', tamper: (db) => update(db, 2, 'log_seq = 1'), broken: [2], named: 'Θ-0003' },
  { what: 'its hash to nothing', tamper: (db) => update(db, 2, "hash = ''"), broken: [2], named: 'Θ-0003' },
  { what: 'its time to nonsense', tamper: (db) => update(db, 2, "recorded_at = 'soon'"), broken: [2], named: 'Θ-0003' },
  { what: 'its link to nothing', tamper: (db) => update(db, 5, 'previous_hash = NULL'), broken: [5], named: 'Θ-0009' },
  { what: 'the first by removing it', tamper: remove(1), broken: [1], named: 'Θ-0001' },
  { what: 'one in the middle by removing it', tamper: remove(3), broken: [3], named: 'Θ-0005' },
  { what: 'the last by removing it', tamper: remove(6), broken: [6], named: 'Θ-0011' },
  { what: 'three by removing them', tamper: remove(2, 3, 5), broken: [2, 3, 5], named: 'Θ-0003' },
  { what: 'all by removing them', tamper: remove(1, 2, 3, 4, 5, 6), broken: [1, 2, 3, 4, 5, 6], named: 'Θ-0001' },
  {
    what: 'nothing, and inserts one at the end',
    tamper: (db) => insert(db, {}),
    broken: [7],
    total: 8,
    named: 'Θ-0099',
  },
  {
    what: 'nothing, and inserts one at the place of another in the log',
    tamper: (db) => insert(db, { log_seq: 3, chain_position: 7 }),
    broken: [7],
    total: 8,
    named: 'Θ-0099',
  },
  {
    what: 'two by exchanging what they say',
    tamper: (db) => exchange(db, 2, 5, ['content', 'hash', 'previous_hash', 'recorded_at', 'metadata']),
    broken: [2, 5],
    named: 'Θ-0003',
  },
  {
    what: 'two neighbours by exchanging their places in the log',
    tamper: (db) => exchange(db, 3, 4, ['log_seq']),
    broken: [3, 4],
    named: 'Θ-0005',
  },
  {
    what: 'one by giving it to another task',
    tamper: (db) => update(db, 6, 'task_number = 2, chain_position = 99'),
    broken: [6],
    named: 'Θ-0011',
  },
]

describe('a thought that was altered behind the back of the program', () => {
  it.each(cases)('is found when someone altered $what', async ({ tamper, broken, total = 7, named }) => {
    app.behindItsBack(tamper)
    const verdict = await verify(app, { task_id: 'T-0001' })
    expect(verdict.broken_links.map((link) => link.position)).toEqual(broken.map(positionOf))
    expect(verdict).toMatchObject({
      chain_valid: false,
      total_records: total,
      integrity_score: (100 * (total - broken.length)) / total,
      log: { valid: true, first_bad_seq: null },
    })
    for (const link of verdict.broken_links) expect(link.expected_hash).not.toBe(link.actual_hash)
    expect(
      await app.ask('thought_record_list', { task_id: 'T-0001', verify_chain: true, limit: 1, type: 'risk' }),
    ).toEqual({ task_id: 'T-0001', thought_count: 0, thoughts: [], chain_valid: false, invalid_links: broken })
    await app.stop()
    const report = await checkState(app.config)
    expect(report.ok).toBe(false)
    expect(report.findings.map((finding) => `${finding.table} ${finding.row}`).join('\n')).toContain(named)
  })

  it('leaves the verdict on other tasks as it is', async () => {
    app.behindItsBack((db) => update(db, 3, "content = 'altered'"))
    expect(await verify(app, { task_id: 'T-0002' })).toMatchObject({ chain_valid: true, integrity_score: 100 })
  })

  it('shows what the document says it should be and what it is', async () => {
    const altered = { ...thoughts[2]!, content: 'altered' }
    app.behindItsBack((db) => update(db, 3, "content = 'altered'"))
    const { broken_links } = await verify(app, { task_id: 'T-0001' })
    expect(broken_links).toEqual([
      { position: 4, expected_hash: thoughts[2]!.hash, actual_hash: documentHash(altered) },
    ])
  })

  it('says so in the words of the list when nothing is wrong', async () => {
    const list = await app.ask('thought_record_list', { task_id: 'T-0001', verify_chain: true, limit: 1 })
    expect(list).toMatchObject({ thought_count: 6, chain_valid: true })
    expect(list).not.toHaveProperty('invalid_links')
    expect(await verify(app, { task_id: 'T-0001' })).toMatchObject({
      chain_valid: true,
      total_records: 7,
      integrity_score: 100,
      broken_links: [],
    })
  })

  it('is not shown when it cannot be read any more, and still verified', async () => {
    app.behindItsBack((db) => update(db, 3, "metadata = 'no JSON', tests_run = '7'"))
    expect(await app.refusal('thought_record_list', { task_id: 'T-0001' })).toMatchObject({
      code: 'ERR_LOG_INVALID',
      details: { thought_id: 'Θ-0005' },
    })
    const verdict = await verify(app, { task_id: 'T-0001' })
    expect(verdict.broken_links.map((link) => link.position)).toEqual([4])
    await app.stop()
    const { findings } = await checkState(app.config)
    expect(findings.map(({ row, field }) => `${row} ${field}`).sort()).toEqual(['Θ-0005 metadata', 'Θ-0005 tests_run'])
  })

  it('is one broken record for the task that it was given to', async () => {
    app.behindItsBack((db) => update(db, 6, 'task_number = 2, chain_position = 99'))
    const verdict = await verify(app, { task_id: 'T-0002' })
    expect(verdict).toMatchObject({ chain_valid: false, total_records: 8, integrity_score: (100 * 7) / 8 })
    expect(verdict.broken_links.map((link) => link.position)).toEqual([8])
  })
})
