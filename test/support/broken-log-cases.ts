import { checkpointOrigin, signCheckpoint, signNote } from '../../src/audit/checkpoint.ts'
import { sha256Hex } from '../../src/kernel/hash.ts'
import {
  KEY,
  ORIGIN,
  OTHER_KEY,
  type SampleDatabase,
  type SampleEffect,
  type SampleRecord,
  sampleDatabase,
  sampleRecords,
  TENANT,
} from './sample-log.ts'

/** One damage to the sample store, and every finding it must lead to, as `table row rule field`. */
export type BrokenCase = Readonly<{
  name: string
  /** Changes what the log says; its tree is built afterwards, so only the meaning is wrong. */
  effects?: (effects: SampleEffect[][]) => void
  records?: (records: SampleRecord[]) => void
  /** Changes what is stored. */
  tables?: (database: SampleDatabase) => void
  expected: readonly string[]
}>

export function set<T extends object>(target: T | undefined, members: Partial<T>): void {
  if (target === undefined) throw new Error('nothing to change')
  Object.assign(target, members)
}

const stored = (name: string, tables: (database: SampleDatabase) => void, ...expected: string[]): BrokenCase => ({
  name,
  tables,
  expected,
})

const recorded = (name: string, record: Partial<SampleRecord>, ...expected: string[]): BrokenCase => ({
  name,
  records: (records) => set(records[8], record),
  expected,
})

const listed = { call_id: 'listed', at: '2026-01-01', tool: 'any', input: 'unread', outcome: 'ok' }
/** A call like the one before it. */
const alike = { call_id: 'alike' }

const reads = (name: string, calls: unknown, ...expected: string[]): BrokenCase =>
  recorded(name, { kind: 'reads', calls }, ...expected)
const readsThatDiffer = (name: string, calls: unknown, ...expected: string[]): BrokenCase =>
  recorded(name, { kind: 'reads', calls, v: 2 }, ...expected)

const unsaid = (position: number): string[] =>
  ['at', 'tool', 'input', 'outcome'].map((name) => `log_entries 8 log.record-shape calls[${position}].${name}`)

const note = (name: string, checkpoint: string, ...expected: string[]): BrokenCase => ({
  name,
  tables: (database) => set(database, { checkpoint }),
  expected,
})

const rewrite = (from: string, to: string) => (database: SampleDatabase) =>
  set(database.log[8], { record: database.log[8]!.record.replace(from, to) })

/** As someone with access to the database would: rows and head agree again. */
function cutTail(database: SampleDatabase): void {
  const short = sampleDatabase(sampleRecords().slice(0, 12))
  set(database, { log: short.log, head: short.head })
}

const sound = sampleDatabase()
const soundNote = sound.checkpoint!
const soundRoot = Buffer.from(soundNote.split('\n')[2]!, 'base64')
const changedNodes = Buffer.from(sound.log[7]!.nodes).fill(0, 64, 96)

export const brokenLogCases: readonly BrokenCase[] = [
  stored('a row is missing', (db) => db.log.splice(8, 1), 'log_entries 9 log.seq'),
  stored(
    'the first row is missing',
    (db) => db.log.shift(),
    'log_entries 1 log.seq',
    'log_entries 1 fold.unknown-reference effects[0].body.project',
    'log_entries 2 fold.unknown-reference effects[0].body.project',
    'log_heads local head.counter projects',
    'projects alpha row.extra',
  ),
  stored('a row comes twice', (db) => db.log.splice(8, 0, db.log[8]!), 'log_entries 8 log.seq'),
  stored(
    'a node is changed at a higher level',
    (db) => set(db.log[7], { nodes: changedNodes }),
    'log_entries 7 log.nodes level 2',
    'log_entries 7 log.nodes level 3',
  ),
  stored(
    'a stored leaf is changed',
    (db) => set(db.log[8], { nodes: Buffer.alloc(32) }),
    'log_entries 8 log.nodes level 0',
    'log_entries 9 log.nodes level 1',
  ),
  stored(
    'nodes are cut off',
    (db) => set(db.log[7], { nodes: db.log[7]!.nodes.subarray(0, 96) }),
    'log_entries 7 log.nodes nodes',
  ),
  stored(
    'the subject column is changed',
    (db) => set(db.log[3], { subject: 'task:2' }),
    'log_entries 3 log.subject subject',
  ),
  stored(
    'the hash column is changed',
    (db) => set(db.log[3], { recordHash: null }),
    'log_entries 3 log.record-hash recordHash',
  ),
  stored('a record is changed in place', rewrite('"any"', '"all"'), 'log_entries 8 log.nodes level 0'),
  stored(
    'a record is no longer canonical',
    rewrite(':1}', ': 1}'),
    'log_entries 8 log.nodes level 0',
    'log_entries 8 log.record-canonical',
  ),
  stored('a record is no JSON', rewrite('{', '('), 'log_entries 8 log.nodes level 0', 'log_entries 8 log.record-json'),
  stored(
    'a record holds a lone surrogate',
    rewrite('"any"', '"\\ud800"'),
    'log_entries 8 log.nodes level 0',
    'log_entries 8 log.record-canonical',
  ),
  stored('the head is missing', (db) => set(db, { head: undefined }), 'log_heads local head.missing'),
  stored('the head counts too many', (db) => set(db.head, { size: 14 }), 'log_heads local head.size size'),
  stored(
    'the head has other peaks',
    (db) => set(db.head, { peaks: Buffer.alloc(96) }),
    'log_heads local head.peaks peaks',
  ),
  stored(
    'the head has a wrong counter',
    (db) => set(db.head, { counters: { tasks: 3 } }),
    'log_heads local head.counter tasks',
  ),

  recorded('a record of another tenant', { tenant: 'other' }, 'log_entries 8 log.record-tenant tenant'),
  recorded('a call recorded twice', { call_id: 'call_3' }, 'log_entries 8 log.call-id call_id'),
  recorded('a record without a call id', { call_id: null }, 'log_entries 8 log.record-shape call_id'),
  recorded('a record of an unknown version', { v: 2 }, 'log_entries 8 log.record-shape'),
  {
    name: 'effects that are no list',
    records: (records) => Object.assign(records[8]!, { effects: {} }),
    expected: ['log_entries 8 log.record-shape effects'],
  },

  reads(
    'a call of a list recorded before',
    [{ ...listed, call_id: 'call_3' }],
    'log_entries 8 log.call-id calls[0].call_id',
  ),
  reads('a call twice in a list', [listed, listed], 'log_entries 8 log.call-id calls[1].call_id'),
  reads('an empty list of calls', [], 'log_entries 8 log.record-shape calls'),
  reads('a list of calls that is none', {}, 'log_entries 8 log.record-shape calls'),
  reads('a list with something else', [listed, 'a call'], 'log_entries 8 log.record-shape calls[1]'),
  reads('a call without its tool', [{ ...listed, tool: 1 }], 'log_entries 8 log.record-shape calls[0].tool'),
  reads('a call that says nothing in an older list', [listed, alike], ...unsaid(1)),
  readsThatDiffer('a list whose first call says nothing', [alike], ...unsaid(0)),
  readsThatDiffer(
    'a time that has ended',
    [listed, { ...alike, at: null }],
    'log_entries 8 log.record-shape calls[1].at',
  ),
  recorded('a list of an unknown version', { kind: 'reads', calls: [listed], v: 3 }, 'log_entries 8 log.record-shape'),
  reads('a read of another tenant', [{ ...listed, tenant: 'b' }], 'log_entries 8 log.record-shape calls[0].tenant'),
  recorded('a call with a list', { calls: [listed] }, 'log_entries 8 log.record-shape calls'),
  reads('a read with effects', [{ ...listed, effects: [] }], 'log_entries 8 log.record-shape calls[0].effects'),
  {
    name: 'a list of calls with effects',
    records: (records) => Object.assign(records[8]!, { kind: 'reads', calls: [listed], effects: [] }),
    expected: ['log_entries 8 log.record-shape effects'],
  },

  stored('the time of an entry is changed', (db) => set(db.log[8], { atMs: 1 }), 'log_entries 8 log.at at'),
  stored('the time of an entry is none', (db) => set(db.log[8], { atMs: 9e15 }), 'log_entries 8 log.at at'),
  stored(
    'the trail index is said to go further than it does',
    (db) => set(db.head, { trail: { to: 13, entries: 0, last: null } }),
    'log_heads local head.trail trail_to',
  ),
  stored(
    'the trail index is said to end before its last record',
    (db) => set(db.head, { trail: { to: 3, entries: 3, last: 3 } }),
    'log_heads local head.trail trail_to',
  ),
  stored('the checkpoint is gone', (db) => set(db, { checkpoint: undefined }), 'checkpoints local checkpoint.missing'),
  stored(
    'the name of the log is another',
    (db) => set(db.identity, { logId: 'log2' }),
    'log_identity log1 identity.log-id log_id',
  ),
  stored(
    'the key of the log is another',
    (db) => set(db.identity, { verifierKey: OTHER_KEY.verifierKey }),
    'log_identity log1 identity.key verifier_key',
  ),
  stored(
    'nothing says whose log it is',
    (db) => set(db, { identity: undefined }),
    'log_identity log1 identity.missing',
  ),
  note(
    'a checkpoint of another log',
    signCheckpoint({ origin: checkpointOrigin('log2', TENANT), size: 13, root: soundRoot }, KEY.signerKey),
    'checkpoints local checkpoint.origin origin',
  ),
  note('a checkpoint that is no note', 'nonsense', 'checkpoints local checkpoint.note'),
  note('a checkpoint with something behind it', `${soundNote}x`, 'checkpoints local checkpoint.note'),
  note(
    'a checkpoint that was changed',
    soundNote.replace('\n13\n', '\n12\n'),
    'checkpoints local checkpoint.signature',
    'checkpoints local checkpoint.root root',
  ),
  note(
    'a checkpoint of another tenant',
    signCheckpoint({ origin: ORIGIN.replace(TENANT, 'other'), size: 13, root: soundRoot }, KEY.signerKey),
    'checkpoints local checkpoint.origin origin',
  ),
  note(
    'a checkpoint of the empty log with another root',
    signNote(`${ORIGIN}\n0\n${Buffer.from(sha256Hex('x'), 'hex').toString('base64')}\n`, KEY.signerKey),
    'checkpoints local checkpoint.root root',
  ),
  stored('the tail is cut and all else agrees', cutTail, 'checkpoints local checkpoint.ahead size'),
  {
    name: 'history is rewritten and all else agrees',
    records: (records) => set(records[8], { tool: 'other' }),
    tables: (database) => set(database, { checkpoint: soundNote }),
    expected: ['checkpoints local checkpoint.root root'],
  },
]
