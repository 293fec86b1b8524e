import { sha256Hex } from '../../kernel/hash.ts'
import {
  canonicalText,
  type EffectSpec,
  type EntityName,
  effectSpecs,
  entities,
  idNumber,
  idOf,
  isMembers,
  type Members,
  type Row,
} from './entities.ts'
import type { FindingInput, FsckRule, ReportFinding } from './findings.ts'
import { createSessionRoots, type SessionRoots } from './session-roots.ts'

/** The state according to the log, rebuilt from its effects. */
export type Fold = Readonly<{
  /** Applies the effects in order. Returns the row of a new thought: those are compared at once and not stored. */
  apply(effect: unknown, seq: number, position: number): Row | undefined
  rows: Readonly<Record<Exclude<EntityName, 'thoughts'>, ReadonlyMap<string, Row>>>
  counts(): Readonly<Record<EntityName, number>>
  /** Effects of kinds that this checker does not rebuild. */
  otherEffects(): number
}>

type Effect = Readonly<{ kind: string; subject: unknown; hash: unknown; body: Members }>
type LogPosition = Readonly<{ seq: number; position: number }>
type Problem = (rule: FsckRule, more?: Partial<Omit<FindingInput, 'rule'>>) => void
type Step = Readonly<{ spec: EffectSpec; key: string; body: Members; seq: number; problem: Problem }>

type State = Readonly<{
  rows: Readonly<Record<Exclude<EntityName, 'thoughts'>, Map<string, Row>>>
  counts: Record<EntityName, number>
  lastNumber: Record<EntityName, number>
  projectSequence: Map<string, number>
  chainEnds: Map<string, Readonly<{ hash: unknown; position: number }>>
  sessionRoots: SessionRoots
}>

export function createFold(report: ReportFinding): Fold {
  const state: State = {
    rows: { projects: new Map(), tasks: new Map(), sessions: new Map() },
    counts: { projects: 0, tasks: 0, thoughts: 0, sessions: 0 },
    lastNumber: { projects: 0, tasks: 0, thoughts: 0, sessions: 0 },
    projectSequence: new Map(),
    chainEnds: new Map(),
    sessionRoots: createSessionRoots(),
  }
  let others = 0

  return {
    apply(value, seq, position) {
      const problem = problemAt(report, { seq, position })
      if (!isEffect(value)) {
        problem('effect.shape')
        return undefined
      }
      const spec = Object.hasOwn(effectSpecs, value.kind) ? effectSpecs[value.kind] : undefined
      checkHash(value, spec, problem)
      if (spec === undefined) {
        others++
        return undefined
      }
      const { body } = value
      const key = body[entities[spec.entity].key]
      if (typeof key !== 'string') {
        problem('effect.shape', { field: entities[spec.entity].key, actual: key })
        return undefined
      }
      checkFields(spec, body, problem)
      if (spec.isTrail === true) {
        checkSubject(value, problem)
        state.sessionRoots.addTrailRecord(String(body['task_id']), seq, value.hash)
      }
      const step = { spec, key, body, seq, problem }
      return spec.action === 'create' ? create(state, step) : update(state, step)
    },
    rows: state.rows,
    counts: () => ({ ...state.counts }),
    otherEffects: () => others,
  }
}

function create(state: State, step: Step): Row | undefined {
  const { spec, key, body } = step
  if (!checkId(state, step)) return undefined
  checkReferences(state, step, body, '')
  if (spec.entity === 'tasks') addTask(state, step)
  if (spec.entity === 'thoughts') checkChain(state, step)
  if (spec.entity === 'sessions') startSession(state, step)
  const row: Row = { ...body, ...spec.initial?.(body, step.seq) }
  state.counts[spec.entity]++
  if (spec.entity === 'thoughts') return row
  state.rows[spec.entity].set(key, row)
  return undefined
}

function update(state: State, step: Step): undefined {
  const { spec, key, body, problem } = step
  const row = spec.entity === 'thoughts' ? undefined : state.rows[spec.entity].get(key)
  if (row === undefined) {
    problem('fold.unknown-row', { actual: key })
    return
  }
  if ('previous_status' in body && body['previous_status'] !== row['status']) {
    const field = 'previous_status'
    problem('fold.previous-status', { field, expected: row['status'], actual: body[field] })
  }
  if (spec.entity === 'sessions') checkFinalized(state, step, row)
  if (spec.changes !== undefined) applyChanges(state, step, spec.changes, row)
  for (const [field, value] of Object.entries(body)) {
    if (!spec.unretained?.includes(field)) row[spec.renamed?.[field] ?? field] = value
  }
}

function applyChanges(state: State, step: Step, changes: NonNullable<EffectSpec['changes']>, row: Row): void {
  const { member, allowed } = changes
  const fields = step.body[member]
  if (!isMembers(fields)) {
    step.problem('effect.field', { field: member, detail: 'Not an object.' })
    return
  }
  for (const field of Object.keys(fields)) {
    if (!allowed.includes(field)) step.problem('effect.field', { field: `${member}.${field}`, detail: 'Not known.' })
  }
  checkReferences(state, step, fields, `${member}.`)
  Object.assign(row, fields)
}

function checkReferences(state: State, { spec, problem }: Step, members: Members, prefix: string): void {
  for (const [member, entity] of Object.entries(spec.references ?? {})) {
    const value = members[member]
    const keys = Array.isArray(value) ? value : value === null || value === undefined ? [] : [value]
    for (const key of keys) {
      if (!state.rows[entity].has(key)) {
        problem('fold.unknown-reference', { field: `${prefix}${member}`, actual: key })
      }
    }
  }
}

/** False if the row cannot be added. */
function checkId({ rows, lastNumber }: State, { spec, key, problem }: Step): boolean {
  const { key: field, idLetter } = entities[spec.entity]
  if (idLetter === undefined) {
    if (spec.entity === 'thoughts' || !rows[spec.entity].has(key)) return true
    problem('fold.created-twice', { field, actual: key })
    return false
  }
  const number = idNumber(idLetter, key)
  if (number === undefined) {
    problem('id.form', { field, actual: key })
    return false
  }
  const expected = lastNumber[spec.entity] + 1
  if (number < expected) {
    problem('fold.created-twice', { field, actual: key })
    return false
  }
  if (number > expected) problem('id.gap', { field, expected: idOf(idLetter, expected), actual: key })
  lastNumber[spec.entity] = number
  return true
}

function addTask({ rows, projectSequence, sessionRoots }: State, { key, body, problem }: Step): void {
  const project = String(body['project'])
  const expected = (projectSequence.get(project) ?? 0) + 1
  const actual = body['sequence']
  if (actual !== expected) problem('project.sequence', { field: 'sequence', expected, actual })
  projectSequence.set(project, typeof actual === 'number' ? actual : expected)
  const projectRow = rows.projects.get(project)
  if (projectRow !== undefined) projectRow['task_count'] = Number(projectRow['task_count']) + 1
  sessionRoots.addTask(key, body['parent_id'])
}

function startSession({ sessionRoots }: State, { key, body, seq, problem }: Step): void {
  const actual = body['start_seq']
  if (actual !== seq) problem('session.range', { field: 'start_seq', expected: seq, actual })
  sessionRoots.start(key)
}

function checkFinalized({ sessionRoots }: State, { key, body, seq, problem }: Step, row: Row): void {
  if ((row['finalized_at'] ?? null) !== null) {
    problem('fold.finalized-twice', { actual: key })
    return
  }
  const endSeq = body['end_seq']
  if (endSeq !== seq) problem('session.range', { field: 'end_seq', expected: seq, actual: endSeq })
  const only = body['task_id']
  const summary = sessionRoots.finalize({
    sessionId: key,
    taskId: String(row['task_id']),
    isDeep: row['scope'] === 'deep',
    onlyTaskId: typeof only === 'string' ? only : null,
    startSeq: Number(row['start_seq']),
    endSeq: Number(endSeq),
  })
  for (const [field, expected] of Object.entries(summary)) {
    if (body[field] !== expected) problem('session.tree', { field, expected, actual: body[field] })
  }
}

function checkChain({ chainEnds }: State, { body, problem }: Step): void {
  const taskId = String(body['task_id'])
  const end = chainEnds.get(taskId)
  const hash = documentHash(body)
  if (body['hash'] !== hash) problem('thought.hash', { field: 'hash', expected: hash, actual: body['hash'] })
  const link = end?.hash ?? null
  if (body['previous_hash'] !== link) {
    problem('thought.link', { field: 'previous_hash', expected: link, actual: body['previous_hash'] })
  }
  const position = (end?.position ?? 0) + 1
  const actual = body['chain_position']
  if (actual !== position) problem('thought.position', { field: 'chain_position', expected: position, actual })
  chainEnds.set(taskId, { hash: body['hash'], position: typeof actual === 'number' ? actual : position })
}

const problemAt =
  (report: ReportFinding, { seq, position }: LogPosition): Problem =>
  (rule, more = {}) => {
    const field = `effects[${position}]${more.field === undefined ? '' : `.body.${more.field}`}`
    report({ table: 'log_entries', row: String(seq), rule, ...more, field })
  }

function isEffect(value: unknown): value is Effect {
  return isMembers(value) && typeof value['kind'] === 'string' && isMembers(value['body'])
}

function checkHash({ kind, hash, body }: Effect, spec: EffectSpec | undefined, problem: Problem): void {
  if (hash === undefined && spec?.isTrail !== true) return
  // The rule `thought.hash` checks a thought's own hash.
  const expected = kind === 'thought_recorded' ? body['hash'] : hashOf(body)
  if (hash !== expected) problem('effect.hash', { expected, actual: hash })
}

function hashOf(body: Members): string | undefined {
  const text = canonicalText(body)
  return text === undefined ? undefined : sha256Hex(text)
}

function checkSubject({ subject, body }: Effect, problem: Problem): void {
  const expected = `task:${idNumber('T', body['task_id'])}`
  if (subject !== expected) problem('effect.subject', { expected, actual: subject })
}

function checkFields(spec: EffectSpec, body: Members, problem: Problem): void {
  for (const field of spec.required) {
    if (body[field] === undefined) problem('effect.field', { field, detail: 'Missing.' })
  }
  for (const field of Object.keys(body)) {
    if (spec.required.includes(field) || spec.optional?.includes(field) === true) continue
    problem('effect.field', { field, detail: 'Not known.' })
  }
}

/** SHA-256 over `JSON.stringify` of six fields in this order: the form that the ledger's contract defines. */
function documentHash(body: Members): string {
  const order = ['task_id', 'type', 'content', 'previous_hash', 'recorded_at', 'recorded_by']
  return sha256Hex(JSON.stringify(Object.fromEntries(order.map((field) => [field, body[field]]))))
}
