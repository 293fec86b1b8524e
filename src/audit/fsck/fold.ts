import { canonicalJson } from '../../kernel/canonical-json.ts'
import { sha256Hex } from '../../kernel/hash.ts'
import {
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

/** The state that the log says there is, made anew from its effects. */
export type Fold = Readonly<{
  /** Takes the effects in order. Gives the row of a new thought: those are compared at once and not kept. */
  apply(effect: unknown, seq: number, position: number): Row | undefined
  rows: Readonly<Record<Exclude<EntityName, 'thoughts'>, ReadonlyMap<string, Row>>>
  counts(): Readonly<Record<EntityName, number>>
  /** Effects of kinds that this checker does not fold. */
  otherEffects(): number
}>

type Effect = Readonly<{ kind: string; subject: unknown; hash: unknown; body: Members }>
type Place = Readonly<{ seq: number; position: number }>
type Problem = (rule: FsckRule, more?: Partial<Omit<FindingInput, 'rule'>>) => void

export function createFold(report: ReportFinding): Fold {
  const rows = { projects: new Map<string, Row>(), tasks: new Map<string, Row>(), sessions: new Map<string, Row>() }
  const counts: Record<EntityName, number> = { projects: 0, tasks: 0, thoughts: 0, sessions: 0 }
  const lastNumber: Record<EntityName, number> = { projects: 0, tasks: 0, thoughts: 0, sessions: 0 }
  const projectSequence = new Map<string, number>()
  const chainEnds = new Map<string, { hash: unknown; position: number }>()
  let others = 0

  const exists = (entity: EntityName, key: unknown): boolean =>
    entity !== 'thoughts' && typeof key === 'string' && rows[entity].has(key)

  const checkReferences = (spec: EffectSpec, members: Members, prefix: string, problem: Problem): void => {
    for (const [member, entity] of Object.entries(spec.references ?? {})) {
      const value = members[member]
      const keys = Array.isArray(value) ? value : value === null || value === undefined ? [] : [value]
      for (const key of keys) {
        if (member === entities[spec.entity].key || exists(entity, key)) continue
        problem('fold.unknown-reference', { field: `${prefix}${member}`, actual: key })
      }
    }
  }

  const checkId = (entity: EntityName, key: string, problem: Problem): boolean => {
    const letter = entities[entity].idLetter
    if (letter === undefined) {
      if (!exists(entity, key)) return true
      problem('fold.created-twice', { actual: key })
      return false
    }
    const number = idNumber(letter, key)
    if (number === undefined) {
      problem('id.form', { field: entities[entity].key, actual: key })
      return false
    }
    const expected = lastNumber[entity] + 1
    if (number < expected) {
      problem('fold.created-twice', { field: entities[entity].key, actual: key })
      return false
    }
    if (number > expected) {
      problem('id.gap', { field: entities[entity].key, expected: idOf(letter, expected), actual: key })
    }
    lastNumber[entity] = number
    return true
  }

  const checkSequence = (body: Members, problem: Problem): void => {
    const project = String(body['project'])
    const expected = (projectSequence.get(project) ?? 0) + 1
    const actual = body['sequence']
    if (actual !== expected) problem('project.sequence', { field: 'sequence', expected, actual })
    projectSequence.set(project, typeof actual === 'number' ? actual : expected)
  }

  const checkChain = (body: Members, problem: Problem): void => {
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

  const create = (spec: EffectSpec, key: string, body: Members, problem: Problem): Row | undefined => {
    if (!checkId(spec.entity, key, problem)) return undefined
    checkReferences(spec, body, '', problem)
    if (spec.entity === 'tasks') checkSequence(body, problem)
    if (spec.entity === 'thoughts') checkChain(body, problem)
    const row: Row = { ...body, ...spec.initial?.(body) }
    counts[spec.entity]++
    if (spec.entity === 'thoughts') return row
    rows[spec.entity].set(key, row)
    return undefined
  }

  const update = (spec: EffectSpec, key: string, body: Members, problem: Problem): void => {
    const row = spec.entity === 'thoughts' ? undefined : rows[spec.entity].get(key)
    if (row === undefined) return problem('fold.unknown-row', { actual: key })
    if ('previous_status' in body && body['previous_status'] !== row['status']) {
      const field = 'previous_status'
      problem('fold.previous-status', { field, expected: row['status'], actual: body[field] })
    }
    if (spec.entity === 'sessions' && (row['finalized_at'] ?? null) !== null) {
      problem('fold.finalized-twice', { actual: key })
    }
    const { member, allowed } = spec.changes ?? { member: '', allowed: [] }
    const changes = body[member]
    if (isMembers(changes)) {
      for (const field of Object.keys(changes)) {
        if (!allowed.includes(field)) problem('effect.field', { field: `${member}.${field}`, detail: 'Not known.' })
      }
      checkReferences(spec, changes, `${member}.`, problem)
      Object.assign(row, changes)
    }
    for (const [field, value] of Object.entries(body)) if (!spec.unkept?.includes(field)) row[field] = value
  }

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
      if (spec.isTrail === true) checkSubject(value, problem)
      if (spec.action === 'create') return create(spec, key, body, problem)
      update(spec, key, body, problem)
      return undefined
    },
    rows,
    counts: () => ({ ...counts }),
    otherEffects: () => others,
  }
}

const problemAt =
  (report: ReportFinding, { seq, position }: Place): Problem =>
  (rule, more = {}) => {
    const field = `effects[${position}]${more.field === undefined ? '' : `.body.${more.field}`}`
    report({ table: 'log_entries', row: String(seq), rule, ...more, field })
  }

function isEffect(value: unknown): value is Effect {
  return isMembers(value) && typeof value['kind'] === 'string' && isMembers(value['body'])
}

function checkHash({ kind, hash, body }: Effect, spec: EffectSpec | undefined, problem: Problem): void {
  if (hash === undefined && spec?.isTrail !== true) return
  // Whether a thought's own hash is right is told by `thought.hash`.
  const expected = kind === 'thought_recorded' ? body['hash'] : sha256Hex(canonicalJson(body))
  if (hash !== expected) problem('effect.hash', { expected, actual: hash })
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

/** SHA-256 over `JSON.stringify` of six fields in this order: the form that the tools' documents define. */
function documentHash(body: Members): string {
  const order = ['task_id', 'type', 'content', 'previous_hash', 'recorded_at', 'recorded_by']
  return sha256Hex(JSON.stringify(Object.fromEntries(order.map((field) => [field, body[field]]))))
}
