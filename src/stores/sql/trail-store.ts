import type { ExpressionBuilder, Selectable } from 'kysely'
import type { AuditSession, Thought, ThoughtFilter, ThoughtType, TrailStore } from '../../domains/trail/ports.ts'
import { rowIdOf, rowsFrom } from './row-ids.ts'
import type { AuditSessionTable, Schema, ThoughtTable } from './schema.ts'
import { type Builder, type Kit, statement, statementFamily, type Value } from './statements.ts'
import { headOf, sessionOf, takeNumber, writerOf } from './tx.ts'

type ThoughtRow = Selectable<ThoughtTable>
type SessionRow = Selectable<AuditSessionTable>
type Args = Record<string, Value>

const lastThought = statement<{ tenant: string; task_number: number }>('trail-store.lastThought')((db, arg) =>
  db
    .selectFrom('thoughts')
    .select(['hash', 'chain_position'])
    .where('tenant', '=', arg('tenant'))
    .where('task_number', '=', arg('task_number'))
    .orderBy('chain_position', 'desc')
    .limit(1),
)
const insertThought = statement<ThoughtRow>('trail-store.insertThought')((db, arg, { dialect }) =>
  db.insertInto('thoughts').values({
    ...(dialect === 'sqlite' ? { row_id: arg('row_id') } : {}),
    tenant: arg('tenant'),
    number: arg('number'),
    task_number: arg('task_number'),
    chain_position: arg('chain_position'),
    log_seq: arg('log_seq'),
    type: arg('type'),
    content: arg('content'),
    branch: arg('branch'),
    commit_sha: arg('commit_sha'),
    tests_run: arg('tests_run'),
    blockers: arg('blockers'),
    metadata: arg('metadata'),
    hash: arg('hash'),
    previous_hash: arg('previous_hash'),
    recorded_at: arg('recorded_at'),
    recorded_by: arg('recorded_by'),
  }),
)

/** Padded with the last number to a power of two, so that lists of any length share a few statements. */
function padded(numbers: readonly number[]): readonly number[] {
  const length = 2 ** Math.ceil(Math.log2(Math.max(numbers.length, 1)))
  return Array.from({ length }, (_, index) => numbers[Math.min(index, numbers.length - 1)] ?? -1)
}

const shapeOf = (filter: ThoughtFilter): string =>
  [
    filter.taskNumbers === undefined ? '' : `n${padded(filter.taskNumbers).length}`,
    filter.fromSeq === undefined ? '' : 'f',
    filter.toSeq === undefined ? '' : 't',
    filter.type === undefined ? '' : 'y',
    filter.afterNumber === undefined ? '' : 'a',
  ].join(':')

/** A whole chain, a session's part of one, and everything; page by page or filtered by type. */
const usualShapes = [
  {},
  { taskNumbers: [1] },
  { taskNumbers: [1], fromSeq: 0, toSeq: 0 },
  { fromSeq: 0, toSeq: 0 },
  { taskNumbers: [1], type: 'decision' },
].flatMap((filter) => [shapeOf(filter as ThoughtFilter), shapeOf({ ...filter, afterNumber: 0 } as ThoughtFilter)])

type Arg = (name: string) => Value

function conditions(shape: string, expression: ExpressionBuilder<Schema, 'thoughts'>, arg: Arg, byRowId?: Kit) {
  const [numbers, fromSeq, toSeq, type, afterNumber] = shape.split(':')
  const tenant = arg('tenant') as string
  const and = [expression('tenant', '=', tenant)]
  if (byRowId !== undefined) {
    and[0] = rowsFrom(byRowId.sql, tenant, (afterNumber ? arg('after_number') : 0) as number) as never
  }
  if (numbers) and.push(expression('task_number', 'in', numberArgs(numbers, arg)))
  if (fromSeq) and.push(expression('log_seq', '>=', arg('from_seq') as number))
  if (toSeq) and.push(expression('log_seq', '<', arg('to_seq') as number))
  if (type) and.push(expression('type', '=', arg('type') as string))
  if (afterNumber) and.push(expression('number', '>', arg('after_number') as number))
  return expression.and(and)
}

/** By number; in SQLite by what has the same order and needs no sorting: the row id, or the chain of the only task. */
function orderOf(shape: string, { dialect }: Kit): 'row_id' | 'chain_position' | 'number' {
  if (dialect === 'postgres') return 'number'
  return shape.startsWith(':') ? 'row_id' : shape.startsWith('n1:') ? 'chain_position' : 'number'
}

const listFamily = statementFamily<Args, ThoughtRow>(
  'trail-store.listFamily',
  (shape): Builder<Args, ThoughtRow> =>
    (db, arg, kit) => {
      const order = orderOf(shape, kit)
      return db
        .selectFrom('thoughts')
        .selectAll()
        .where((expression) => conditions(shape, expression, arg, order === 'row_id' ? kit : undefined))
        .orderBy(order)
        .limit(arg('limit') as number)
        .offset(arg('offset') as number)
    },
  usualShapes,
)

const countFamily = statementFamily<Args, { count: number }>(
  'trail-store.countFamily',
  (shape): Builder<Args, { count: number }> =>
    (db, arg) =>
      db
        .selectFrom('thoughts')
        .select((expression) => expression.fn.countAll<number>().as('count'))
        .where((expression) => conditions(shape, expression, arg)),
  usualShapes,
)

const numberArgs = (part: string, arg: (name: string) => Value): number[] =>
  Array.from({ length: Number(part.slice(1)) }, (_, index) => arg(`number${index}`) as number)

function filterArgs(tenant: string, filter: ThoughtFilter): Args {
  const args: Args = { tenant }
  if (filter.taskNumbers !== undefined) {
    for (const [index, number] of padded(filter.taskNumbers).entries()) args[`number${index}`] = number
  }
  if (filter.fromSeq !== undefined) args['from_seq'] = filter.fromSeq
  if (filter.toSeq !== undefined) args['to_seq'] = filter.toSeq
  if (filter.type !== undefined) args['type'] = filter.type
  if (filter.afterNumber !== undefined) args['after_number'] = filter.afterNumber
  return args
}

const thoughtNumbers = statement<{ tenant: string; task_number: number; limit: number }>('trail-store.thoughtNumbers')(
  (db, arg) =>
    db
      .selectFrom('thoughts')
      .select('number')
      .where('tenant', '=', arg('tenant'))
      .where('task_number', '=', arg('task_number'))
      .orderBy('chain_position')
      .limit(arg('limit')),
)

type NewSessionRow = Pick<
  SessionRow,
  'tenant' | 'number' | 'task_number' | 'auditor_id' | 'reason' | 'scope' | 'started_at' | 'started_by' | 'start_seq'
>
const insertSession = statement<NewSessionRow>('trail-store.insertSession')((db, _arg, { columns }) =>
  db
    .insertInto('audit_sessions')
    .values(
      columns([
        'tenant',
        'number',
        'task_number',
        'auditor_id',
        'reason',
        'scope',
        'started_at',
        'started_by',
        'start_seq',
      ]),
    ),
)
const findSession = statement<{ tenant: string; number: number }>('trail-store.findSession')((db, arg) =>
  db.selectFrom('audit_sessions').selectAll().where('tenant', '=', arg('tenant')).where('number', '=', arg('number')),
)
const finalizeSession = statement<
  Pick<
    SessionRow,
    'tenant' | 'number' | 'end_seq' | 'finalized_at' | 'only_task_number' | 'merkle_root' | 'tree_depth' | 'leaf_count'
  >
>('trail-store.finalizeSession')((db, arg, { columns }) =>
  db
    .updateTable('audit_sessions')
    .set(columns(['end_seq', 'finalized_at', 'only_task_number', 'merkle_root', 'tree_depth', 'leaf_count']))
    .where('tenant', '=', arg('tenant'))
    .where('number', '=', arg('number'))
    .where('finalized_at', 'is', null),
)

export const sqlTrailStore: TrailStore = {
  takeThoughtNumber: (tx, tenant) => takeNumber(tx, tenant, 'thoughtCount'),
  async lastThought(tx, tenant, taskNumber) {
    const row = await sessionOf(tx).get(lastThought, { tenant, task_number: taskNumber })
    return row === undefined ? undefined : { hash: row.hash, chainPosition: row.chain_position }
  },
  async insertThought(tx, tenant, thought) {
    const { firstId } = headOf(tx, tenant)
    await sessionOf(tx).run(insertThought, {
      row_id: rowIdOf(firstId, thought.number),
      tenant,
      number: thought.number,
      task_number: thought.taskNumber,
      chain_position: thought.chainPosition,
      log_seq: thought.logSeq,
      type: thought.type,
      content: thought.content,
      branch: thought.branch,
      commit_sha: thought.commitSha,
      tests_run: jsonOrNull(thought.testsRun),
      blockers: jsonOrNull(thought.blockers),
      metadata: jsonOrNull(thought.metadata),
      hash: thought.hash,
      previous_hash: thought.previousHash,
      recorded_at: thought.recordedAtMs,
      recorded_by: thought.recordedBy,
    })
  },
  async listThoughts(tx, tenant, filter, page) {
    const args = { ...filterArgs(tenant, filter), limit: page.limit, offset: page.offset }
    return (await sessionOf(tx).all(listFamily(shapeOf(filter)), args)).map(toThought)
  },
  async countThoughts(tx, tenant, filter) {
    return (await sessionOf(tx).get(countFamily(shapeOf(filter)), filterArgs(tenant, filter)))?.count ?? 0
  },
  async thoughtNumbers(tx, tenant, taskNumber, limit) {
    const rows = await sessionOf(tx).all(thoughtNumbers, { tenant, task_number: taskNumber, limit })
    return rows.map((row) => row.number)
  },
  takeSessionNumber: (tx, tenant) => takeNumber(tx, tenant, 'sessionCount'),
  async insertSession(tx, tenant, session) {
    await writerOf(tx, tenant).run(insertSession, {
      tenant,
      number: session.number,
      task_number: session.taskNumber,
      auditor_id: session.auditorId,
      reason: session.reason,
      scope: session.scope,
      started_at: session.startedAtMs,
      started_by: session.startedBy,
      start_seq: session.startSeq,
    })
  },
  async findSession(tx, tenant, number) {
    const row = await sessionOf(tx).get(findSession, { tenant, number })
    return row === undefined ? undefined : toSession(row)
  },
  async finalizeSession(tx, tenant, number, finalized) {
    const changed = await writerOf(tx, tenant).run(finalizeSession, {
      tenant,
      number,
      end_seq: finalized.endSeq,
      finalized_at: finalized.atMs,
      only_task_number: finalized.onlyTaskNumber,
      merkle_root: finalized.merkleRoot,
      tree_depth: finalized.treeDepth,
      leaf_count: finalized.leafCount,
    })
    return changed === 1
  },
}

const jsonOrNull = (value: unknown): string | null => (value === null ? null : JSON.stringify(value))

/** Text that is not JSON was not written by us; it is returned unchanged, for a verifier to see. */
function readJson(text: string | null): unknown {
  if (text === null) return null
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

function toThought(row: ThoughtRow): Thought {
  return {
    number: row.number,
    taskNumber: row.task_number,
    chainPosition: row.chain_position,
    logSeq: row.log_seq,
    type: row.type as ThoughtType,
    content: row.content,
    branch: row.branch,
    commitSha: row.commit_sha,
    testsRun: readJson(row.tests_run) as Thought['testsRun'],
    blockers: readJson(row.blockers) as Thought['blockers'],
    metadata: readJson(row.metadata) as Thought['metadata'],
    hash: row.hash,
    previousHash: row.previous_hash,
    recordedAtMs: row.recorded_at,
    recordedBy: row.recorded_by,
  }
}

function toSession(row: SessionRow): AuditSession {
  return {
    number: row.number,
    taskNumber: row.task_number,
    auditorId: row.auditor_id,
    reason: row.reason,
    scope: row.scope as AuditSession['scope'],
    startedAtMs: row.started_at,
    startedBy: row.started_by,
    startSeq: row.start_seq,
    finalized:
      row.finalized_at === null
        ? null
        : {
            endSeq: row.end_seq!,
            atMs: row.finalized_at,
            onlyTaskNumber: row.only_task_number,
            merkleRoot: row.merkle_root!,
            treeDepth: row.tree_depth!,
            leafCount: row.leaf_count!,
          },
  }
}
