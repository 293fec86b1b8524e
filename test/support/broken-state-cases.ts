import { canonicalJson } from '../../src/kernel/canonical-json.ts'
import { sha256Hex } from '../../src/kernel/hash.ts'
import { type BrokenCase, set } from './broken-log-cases.ts'
import type { SampleDatabase, SampleEffect } from './sample-log.ts'

const entry = (seq: number, rule: string, field?: string): string =>
  `log_entries ${seq} ${rule} effects[0]${field === undefined ? '' : `.body.${field}`}`

/** Entries 5 and 9 are leaves of the frozen session: changing them changes its root too. */
const frozenRoot = entry(10, 'session.tree', 'merkle_root')
const frozenTree = [frozenRoot, entry(10, 'session.tree', 'tree_depth'), entry(10, 'session.tree', 'leaf_count')]

const said = (name: string, seq: number, edit: (effect: SampleEffect) => void, ...expected: string[]): BrokenCase => ({
  name,
  effects: (effects) => edit(effects[seq]![0]!),
  expected,
})

/** Changes the body and gives the effect the hash of the new one; a thought keeps its own. */
const body = (members: Record<string, unknown>) => (effect: SampleEffect) => {
  set(effect.body, members)
  if (effect.hash !== undefined && effect.kind !== 'thought_recorded')
    effect.hash = sha256Hex(canonicalJson(effect.body))
}

const again = (name: string, seq: number, ...expected: string[]): BrokenCase => ({
  name,
  effects: (effects) => effects.splice(12, 1, structuredClone(effects[seq]!)),
  expected,
})

const stored = (name: string, tables: (database: SampleDatabase) => void, ...expected: string[]): BrokenCase => ({
  name,
  tables,
  expected,
})

const progress = { progress: 50, labels: ['a', 'b'] }

export const brokenStateCases: readonly BrokenCase[] = [
  said('an effect without a kind', 12, (effect) => Reflect.deleteProperty(effect, 'kind'), entry(12, 'effect.shape')),
  said(
    'an effect without its key',
    11,
    body({ session_id: null }),
    entry(11, 'effect.shape', 'session_id'),
    'log_heads local head.counter sessions',
    'sessions A-0002 row.extra',
  ),
  said('an effect with a wrong hash', 5, (effect) => set(effect, { hash: '00' }), entry(5, 'effect.hash'), frozenRoot),
  said(
    'an effect without a hash',
    5,
    (effect) => Reflect.deleteProperty(effect, 'hash'),
    entry(5, 'effect.hash'),
    frozenRoot,
  ),
  said('another subject', 5, (effect) => set(effect, { subject: 'task:2' }), entry(5, 'effect.subject')),
  said(
    'an unknown field',
    5,
    body({ extra: 1 }),
    entry(5, 'effect.field', 'extra'),
    frozenRoot,
    'tasks T-0001 row.field extra',
  ),
  said(
    'a missing field',
    5,
    (effect) => {
      Reflect.deleteProperty(effect.body, 'updated_by')
      body({})(effect)
    },
    entry(5, 'effect.field', 'updated_by'),
    frozenRoot,
    'tasks T-0001 row.field updated_by',
  ),
  said(
    'changes that are none',
    5,
    body({ changes: 1 }),
    entry(5, 'effect.field', 'changes'),
    frozenRoot,
    'tasks T-0001 row.field status',
  ),
  said(
    'a change of what cannot change',
    9,
    body({ changes: { ...progress, title: 'x' } }),
    entry(9, 'effect.field', 'changes.title'),
    frozenRoot,
    'tasks T-0002 row.field title',
  ),
  said(
    'a status that was not',
    5,
    body({ previous_status: 'done' }),
    entry(5, 'fold.previous-status', 'previous_status'),
    frozenRoot,
  ),
  said(
    'an unknown dependency',
    9,
    body({ changes: { ...progress, depends_on: ['T-0009'] } }),
    entry(9, 'fold.unknown-reference', 'changes.depends_on'),
    frozenRoot,
    'tasks T-0002 row.field depends_on',
  ),
  said(
    'an unknown parent',
    2,
    body({ parent_id: 'T-0007' }),
    entry(2, 'fold.unknown-reference', 'parent_id'),
    ...frozenTree,
    'tasks T-0002 row.field parent_id',
  ),
  said(
    'an id that is none',
    2,
    body({ task_id: 'T-2' }),
    entry(2, 'effect.subject'),
    entry(2, 'id.form', 'task_id'),
    entry(7, 'fold.unknown-reference', 'task_id'),
    entry(9, 'fold.unknown-row'),
    ...frozenTree,
    'log_heads local head.counter tasks',
    'projects alpha row.field task_count',
    'tasks T-0002 row.extra',
  ),
  said(
    'a number left out',
    11,
    body({ session_id: 'A-0003' }),
    entry(11, 'id.gap', 'session_id'),
    'sessions A-0002 row.extra',
    'sessions A-0003 row.missing',
  ),
  said(
    'a sequence left out',
    2,
    body({ sequence: 3 }),
    entry(2, 'project.sequence', 'sequence'),
    'tasks T-0002 row.field sequence',
  ),
  said(
    'a session that starts elsewhere',
    11,
    body({ start_seq: 5 }),
    entry(11, 'session.range', 'start_seq'),
    'sessions A-0002 row.field start_seq',
  ),
  said(
    'a session that ends elsewhere',
    10,
    body({ end_seq: 8 }),
    entry(10, 'session.range', 'end_seq'),
    frozenRoot,
    entry(10, 'session.tree', 'leaf_count'),
    'sessions A-0001 row.field end_seq',
  ),
  said(
    'a frozen root of something else',
    10,
    body({ merkle_root: sha256Hex('') }),
    frozenRoot,
    'sessions A-0001 row.field merkle_root',
  ),
  said(
    'a thought that was changed',
    7,
    body({ content: 'changed' }),
    entry(7, 'thought.hash', 'hash'),
    'thoughts Θ-0003 row.field content',
  ),
  said('a thought changed outside its hash', 7, body({ branch: 'dev' }), 'thoughts Θ-0003 row.field branch'),
  said(
    'a thought at a wrong position',
    7,
    body({ chain_position: 2 }),
    entry(7, 'thought.position', 'chain_position'),
    'thoughts Θ-0003 row.field chain_position',
  ),
  said(
    'a thought with a wrong link',
    6,
    body({ previous_hash: null }),
    entry(6, 'thought.hash', 'hash'),
    entry(6, 'thought.link', 'previous_hash'),
    'thoughts Θ-0002 row.field previous_hash',
  ),
  again('a project made twice', 0, entry(12, 'fold.created-twice', 'project')),
  again('a task made twice', 1, entry(12, 'fold.created-twice', 'task_id')),
  again('a thought made twice', 3, entry(12, 'fold.created-twice', 'thought_id')),
  again('a session finalized twice', 10, entry(12, 'fold.finalized-twice')),

  stored('a task is missing', (db) => db.tasks.pop(), 'tasks T-0002 row.missing'),
  stored(
    'a task comes from nowhere',
    (db) => db.tasks.push({ ...db.tasks[0]!, task_id: 'T-0003' }),
    'tasks T-0003 row.extra',
  ),
  stored('a task is there twice', (db) => db.tasks.push(db.tasks[0]!), 'tasks T-0001 row.extra'),
  stored('a task field differs', (db) => set(db.tasks[0], { status: 'done' }), 'tasks T-0001 row.field status'),
  stored('labels differ', (db) => set(db.tasks[1], { labels: ['b', 'a'] }), 'tasks T-0002 row.field labels'),
  stored(
    'a value is no JSON',
    (db) => Object.assign(db.tasks[1]!, { progress: 50n }),
    'tasks T-0002 row.field progress',
  ),
  stored('a project is missing', (db) => db.projects.pop(), 'projects alpha row.missing'),
  stored(
    'a project count differs',
    (db) => set(db.projects[0], { task_count: 3 }),
    'projects alpha row.field task_count',
  ),
  stored(
    'a session field differs',
    (db) => set(db.sessions[0], { merkle_root: null }),
    'sessions A-0001 row.field merkle_root',
  ),
  stored('the first thought is missing', (db) => db.thoughts.shift(), 'thoughts Θ-0001 row.missing'),
  stored('the middle thought is missing', (db) => db.thoughts.splice(1, 1), 'thoughts Θ-0002 row.missing'),
  stored('the last thought is missing', (db) => db.thoughts.pop(), 'thoughts Θ-0003 row.missing'),
  stored('a thought is there twice', (db) => db.thoughts.splice(1, 0, db.thoughts[0]!), 'thoughts Θ-0001 row.extra'),
  stored(
    'a thought comes from nowhere',
    (db) => db.thoughts.push({ ...db.thoughts[0]!, thought_id: 'Θ-0004' }),
    'thoughts Θ-0004 row.extra',
  ),
  stored(
    'a thought has no usable id',
    (db) => db.thoughts.unshift({ ...db.thoughts[0]!, thought_id: 'none' }),
    'thoughts none row.extra',
  ),
  stored('a thought was edited', (db) => set(db.thoughts[1], { content: 'x' }), 'thoughts Θ-0002 row.field content'),
  stored(
    'a thought is tied to another entry',
    (db) => set(db.thoughts[1], { log_seq: 5 }),
    'thoughts Θ-0002 row.field log_seq',
  ),
]
