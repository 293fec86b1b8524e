import type { DatabaseSync } from 'node:sqlite'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { checkState } from '../../src/app/check-state.ts'
import type { TestApp } from '../support/app.ts'
import { sha256, verify } from '../support/ledger.ts'
import {
  cutTail,
  exchangeEntries,
  forgedUpdate,
  insertEntry,
  knownLog,
  LOG_SIZE,
  RECORDS,
  rebuildTree,
  removeEntries,
  rewrite,
  rowsOf,
  setEntry,
} from '../support/tamper-log.ts'

/** An attacker alters the log in the database file. The entries and the positions are those of the table of `knownLog`. */
let app: TestApp
beforeEach(async () => {
  app = await knownLog()
})
afterEach(() => app[Symbol.asyncDispose]())

type Case = Readonly<{
  what: string
  tamper: (db: DatabaseSync) => void
  /** Positions of the records of T-0001 that do not verify. */
  broken: readonly number[]
  total?: number
  log: Readonly<{ first_bad_seq: number | null; checkpoint?: 'matched' | 'mismatch' }>
  /** The rule that the independent checker names, with the row. */
  named: string
}>

const altered = (text: string): string => text.replace('owner', 'mallory')
const shifted = [5, 6, 7, 8, 9, 10, 11]
const cutLog = { first_bad_seq: 10, checkpoint: 'mismatch' } as const
const unanchored = { first_bad_seq: null, checkpoint: 'mismatch' } as const

const alterations: readonly Case[] = [
  {
    what: 'the record of an update',
    tamper: (db) => rewrite(db, 4, altered),
    broken: [3],
    log: { first_bad_seq: 4 },
    named: 'log.nodes 4',
  },
  {
    what: 'the record of a thought',
    tamper: (db) => rewrite(db, 5, altered),
    broken: [4],
    log: { first_bad_seq: 5 },
    named: 'log.nodes 5',
  },
  {
    what: 'the record of the creation',
    tamper: (db) => rewrite(db, 0, altered),
    broken: [1],
    log: { first_bad_seq: 0 },
    named: 'log.nodes 0',
  },
  {
    what: 'the newest record',
    tamper: (db) => rewrite(db, 12, altered),
    broken: [10],
    log: { first_bad_seq: 12 },
    named: 'log.nodes 12',
  },
  {
    what: 'a record into no JSON',
    tamper: (db) => rewrite(db, 5, () => 'x'),
    broken: [4],
    log: { first_bad_seq: 5 },
    named: 'log.record-json 5',
  },
  {
    what: 'a record into one of another task',
    tamper: (db) => rewrite(db, 4, (text) => text.replaceAll('T-0001', 'T-0002').replace('task:1', 'task:2')),
    broken: [3],
    log: { first_bad_seq: 4 },
    named: 'log.nodes 4',
  },
  {
    what: 'the call that only reads, so that nobody can tell what it was',
    tamper: (db) => rewrite(db, 8, altered),
    broken: [7],
    total: 11,
    log: { first_bad_seq: 8 },
    named: 'log.nodes 8',
  },
  {
    what: 'the record of an update and its leaf',
    tamper: (db) => rewrite(db, 4, altered, true),
    broken: [3],
    log: { first_bad_seq: 5 },
    named: 'log.nodes 5',
  },
  {
    what: 'the record of a thought and its leaf',
    tamper: (db) => rewrite(db, 5, (text) => text.replace('second', 'zweite'), true),
    broken: [4],
    log: { first_bad_seq: 5 },
    named: 'log.nodes 5',
  },
  {
    what: 'the leaf of a record',
    tamper: (db) => setEntry(db, 6, { nodes: Buffer.alloc(32) }),
    broken: [5],
    log: { first_bad_seq: 6 },
    named: 'log.nodes 6',
  },
  {
    what: 'the index of an update to no task',
    tamper: (db) => setEntry(db, 4, { task_number: null }),
    broken: [3],
    log: { first_bad_seq: null },
    named: 'log.subject 4',
  },
  {
    what: 'the index of an update to another task',
    tamper: (db) => setEntry(db, 4, { task_number: 2 }),
    broken: [3],
    log: { first_bad_seq: null },
    named: 'log.subject 4',
  },
  {
    what: 'the hash in the index of an update',
    tamper: (db) => setEntry(db, 6, { record_hash: null }),
    broken: [5],
    log: { first_bad_seq: null },
    named: 'log.record-hash 6',
  },
  {
    what: 'the hash in the index of a thought',
    tamper: (db) => setEntry(db, 7, { record_hash: 'f'.repeat(64) }),
    broken: [6],
    log: { first_bad_seq: null },
    named: 'log.record-hash 7',
  },
  {
    what: 'the index of a call that only reads, so that it counts as a record',
    tamper: (db) => setEntry(db, 8, { task_number: 1, record_hash: 'f'.repeat(64) }),
    broken: [7],
    total: 11,
    log: { first_bad_seq: null },
    named: 'log.subject 8',
  },
  {
    what: 'the order of two thoughts',
    tamper: (db) => exchangeEntries(db, 5, 7),
    broken: [4, 6],
    log: { first_bad_seq: 5, checkpoint: 'mismatch' },
    named: 'log.nodes 5',
  },
  {
    what: 'the order of two neighbours',
    tamper: (db) => exchangeEntries(db, 11, 12),
    broken: [9, 10],
    log: { first_bad_seq: 11, checkpoint: 'mismatch' },
    named: 'log.nodes 11',
  },
  {
    what: 'the order of two updates',
    tamper: (db) => exchangeEntries(db, 4, 6),
    broken: [3, 5],
    log: { first_bad_seq: 5 },
    named: 'log.nodes 5',
  },
  {
    what: 'the body of an update, and the tree with it',
    tamper: (db) => {
      rewrite(db, 4, altered)
      rebuildTree(db)
    },
    broken: [3],
    log: unanchored,
    named: 'checkpoint.root local',
  },
  {
    what: 'everything consistently, after the checkpoint was signed',
    tamper: (db) => {
      rewrite(db, 4, (text) => text.replace('"door":"stdio"', '"door":"http"'))
      rebuildTree(db)
    },
    broken: [11],
    total: 11,
    log: unanchored,
    named: 'checkpoint.root local',
  },
]

const removals: readonly Case[] = [
  {
    what: 'a thought',
    tamper: (db) => removeEntries(db, 'seq = 5'),
    broken: [4],
    log: { first_bad_seq: 5 },
    named: 'log.seq 6',
  },
  {
    what: 'an update',
    tamper: (db) => removeEntries(db, 'seq = 4'),
    broken: [3],
    log: { first_bad_seq: 4 },
    named: 'log.seq 5',
  },
  {
    what: 'the first entry',
    tamper: (db) => removeEntries(db, 'seq = 0'),
    broken: [1],
    log: { first_bad_seq: 0 },
    named: 'log.seq 1',
  },
  {
    what: 'several',
    tamper: (db) => removeEntries(db, 'seq IN (4, 5, 9)'),
    broken: [3, 4, 7],
    log: { first_bad_seq: 4 },
    named: 'log.seq 6',
  },
  {
    what: 'a call that only reads, so that nobody can tell what it was',
    tamper: (db) => removeEntries(db, 'seq = 8'),
    broken: [7],
    total: 11,
    log: { first_bad_seq: 8 },
    named: 'log.seq 9',
  },
  {
    what: 'a thought with its row',
    tamper: (db) => {
      removeEntries(db, 'seq = 5')
      db.exec('DELETE FROM thoughts WHERE log_seq = 5')
    },
    broken: [4],
    log: { first_bad_seq: 5 },
    named: 'log.seq 6',
  },
  {
    what: 'the newest',
    tamper: (db) => removeEntries(db, 'seq = 12'),
    broken: [10],
    log: { first_bad_seq: 12, checkpoint: 'mismatch' },
    named: 'log.seq 13',
  },
  {
    what: 'the tail, of log, thoughts and head alike',
    tamper: (db) => cutTail(db, 10),
    broken: [8, 9, 10],
    log: cutLog,
    named: 'checkpoint.ahead local',
  },
  {
    what: 'the tail, of log and head but not of the thoughts',
    tamper: (db) => {
      removeEntries(db, 'seq >= 10')
      rebuildTree(db)
    },
    broken: [8, 9, 10],
    log: cutLog,
    named: 'checkpoint.ahead local',
  },
]

const insertions: readonly Case[] = [
  {
    what: 'in the middle, with all later ones moved up',
    tamper: (db) => insertEntry(db, 6, forgedUpdate(sha256)),
    broken: shifted,
    total: 11,
    log: { first_bad_seq: 7, checkpoint: 'mismatch' },
    named: 'log.nodes 7',
  },
  {
    what: 'at the end, beyond the head',
    tamper: (db) => insertEntry(db, LOG_SIZE, { ...forgedUpdate(sha256), nodes: Buffer.alloc(64) }),
    broken: [11],
    total: 11,
    log: { first_bad_seq: 13 },
    named: 'log.nodes 13',
  },
]

const heads: readonly Case[] = [
  {
    what: 'size',
    tamper: (db) => db.exec('UPDATE log_heads SET size = size + 1'),
    broken: [11],
    total: 11,
    log: { first_bad_seq: 13 },
    named: 'log.seq 14',
  },
  {
    what: 'peaks',
    tamper: (db) => db.exec('UPDATE log_heads SET peaks = zeroblob(96)'),
    broken: [11],
    total: 11,
    log: { first_bad_seq: null },
    named: 'head.peaks local',
  },
]

async function expectFound({ tamper, broken, total = RECORDS, log, named }: Case): Promise<void> {
  app.behindItsBack(tamper)
  const verdict = await verify(app, { task_id: 'T-0001' })
  expect(verdict.broken_links.map((link) => link.position)).toEqual(broken)
  expect(verdict).toMatchObject({
    chain_valid: false,
    total_records: total,
    integrity_score: (100 * (total - broken.length)) / total,
    log: { checkpoint: 'matched', ...log },
  })
  for (const link of verdict.broken_links) expect(link.expected_hash).not.toBe(link.actual_hash)
  await app.stop()
  const report = await checkState(app.config)
  expect(report.ok).toBe(false)
  expect(report.findings.map((finding) => `${finding.rule} ${finding.row}`)).toContain(named)
}

describe('a log entry that was altered', () => {
  it.each(alterations)('is found when it was $what', expectFound)
})
describe('a log entry that was removed', () => {
  it.each(removals)('is found when it was $what', expectFound)
})
describe('a log entry that was inserted', () => {
  it.each(insertions)('is found $what', expectFound)
})
describe('a head that was altered', () => {
  it.each(heads)('is found by its $what', expectFound)

  it('vouches for nothing when it is gone', async () => {
    app.behindItsBack((db) => db.exec('DELETE FROM log_heads'))
    // Without the head nobody knows where the entries of the tenant are, so each thought misses its own.
    const report = await verify(app, { task_id: 'T-0001' })
    expect(report).toMatchObject({ chain_valid: false, integrity_score: 0 })
  })
})

describe('damage that does not concern a task', () => {
  const elsewhere: readonly [string, (db: DatabaseSync) => void, number][] = [
    ['an altered record of another task', (db) => rewrite(db, 3, altered), 3],
    ['a lost thought of another task', (db) => removeEntries(db, 'seq = 3'), 3],
    [
      'a node between, when the leaves still give the roots',
      (db) => {
        const nodes = Buffer.from(rowsOf(db)[5]!.nodes)
        nodes.fill(0, 32)
        setEntry(db, 5, { nodes })
      },
      5,
    ],
  ]

  it.each(elsewhere)('leaves its verdict, but the log is not valid: %s', async (_what, tamper, seq) => {
    app.behindItsBack(tamper)
    expect(await verify(app, { task_id: 'T-0001' })).toMatchObject({
      chain_valid: true,
      integrity_score: 100,
      broken_links: [],
      log: { valid: false, first_bad_seq: seq, checkpoint: 'matched' },
    })
  })

  it('is one broken record of the task that the index names instead', async () => {
    app.behindItsBack((db) => setEntry(db, 4, { task_number: 2 }))
    const verdict = await verify(app, { task_id: 'T-0002' })
    expect(verdict).toMatchObject({ chain_valid: false, total_records: 3, integrity_score: (100 * 2) / 3 })
    expect(verdict.broken_links.map((link) => link.position)).toEqual([3])
  })
})

describe('the list of thoughts', () => {
  it('names the chain position of a damaged entry, and does not mind damaged task records', async () => {
    const list = () => app.ask('thought_record_list', { task_id: 'T-0001', verify_chain: true, limit: 1 })
    app.behindItsBack((db) => rewrite(db, 4, altered))
    expect(await list()).toMatchObject({ chain_valid: true, thought_count: 6 })
    app.behindItsBack((db) => rewrite(db, 7, altered))
    expect(await list()).toMatchObject({ chain_valid: false, invalid_links: [3] })
    app.behindItsBack((db) => removeEntries(db, 'seq = 9'))
    expect(await list()).toMatchObject({ chain_valid: false, invalid_links: [3, 4] })
  })

  it('verifies every chain when it names no task', async () => {
    expect(await app.ask('thought_record_list', { verify_chain: true })).toMatchObject({ chain_valid: true })
    app.behindItsBack((db) => db.exec("UPDATE thoughts SET content = 'x' WHERE task_number = 2"))
    expect(await app.ask('thought_record_list', { verify_chain: true })).toMatchObject({
      chain_valid: false,
      invalid_links: [1],
    })
  })
})
