import type { Sql } from 'kysely'
import type { FsckSource } from '../../audit/fsck/source.ts'
import type { CheckpointStore } from '../../audit/ports.ts'
import { tenantId } from '../../contract/principal.ts'
import type { ReadTx } from '../../contract/tx.ts'
import { formatSessionId, formatTaskId, formatThoughtId, taskPriorities } from '../../domains/tasks/rules.ts'
import { isoTime } from '../../kernel/clock.ts'
import { findLogAnchor, isLogAnchored } from './log-anchors.ts'
import { findLogIdentity } from './log-identity.ts'
import { endRowIdSql, firstRowId, firstRowIdSql, rowsFrom } from './row-ids.ts'
import { rawStatement, type Statement, statement } from './statements.ts'
import { sessionOf } from './tx.ts'

/** The tables as the independent checker reads them: whole, in order, page by page. The transaction must be a snapshot. */
type Page = { tenant: string; after: number; limit: number }
const PAGE = 1_000

const tenants = statement<Record<never, never>>('fsck-source.tenants')((db) =>
  db
    .selectFrom('log_heads')
    .select('tenant')
    .union(db.selectFrom('log_entries').select('tenant'))
    .union(db.selectFrom('projects').select('tenant'))
    .union(db.selectFrom('tasks').select('tenant'))
    .union(db.selectFrom('thoughts').select('tenant'))
    .union(db.selectFrom('audit_sessions').select('tenant'))
    .union(db.selectFrom('runs').select('tenant'))
    .union(db.selectFrom('run_journal').select('tenant'))
    .union(db.selectFrom('tool_policies').select('tenant'))
    .union(db.selectFrom('usage_limits').select('tenant'))
    .orderBy('tenant'),
)
const head = statement<{ tenant: string }>('fsck-source.head')((db, arg) =>
  db.selectFrom('log_heads').selectAll().where('tenant', '=', arg('tenant')),
)
const trailIndex = statement<{ tenant: string }>('fsck-source.trailIndex')((db, arg, { sql }) =>
  rawStatement<{ entries: number; last: number | null }>(
    sql`select count(*) as entries, max(seq) as last from trail_entries where tenant = ${arg('tenant')}`,
    db,
  ),
)
const entries = statement<Page>('fsck-source.entries')((db, arg, { dialect, sql }) => {
  const page = db.selectFrom('log_entries').selectAll().limit(arg('limit'))
  if (dialect === 'postgres') {
    return page.where('tenant', '=', arg('tenant')).where('seq', '>', arg('after')).orderBy('seq')
  }
  return page.where(rowsAfter(sql, arg)).orderBy('row_id')
})
/** SQLite's rows that are not among those of their tenant, in the order of what they claim to be. */
const strayEntries = statement<{ tenant: string }>('fsck-source.strayEntries')((db, arg, { sql }) =>
  db
    .selectFrom('log_entries')
    .selectAll()
    .where('tenant', '=', arg('tenant'))
    .where(isElsewhere(sql, arg('tenant')))
    .orderBy('seq'),
)
const strayThoughts = statement<{ tenant: string }>('fsck-source.strayThoughts')((db, arg, { sql }) =>
  db
    .selectFrom('thoughts')
    .selectAll()
    .where('tenant', '=', arg('tenant'))
    .where(isElsewhere(sql, arg('tenant')))
    .orderBy('number'),
)
type PageArg = <Name extends keyof Page>(name: Name) => Page[Name]
const rowsAfter = (sql: Sql, arg: PageArg) =>
  rowsFrom(sql, arg('tenant'), sql<number>`${arg('after')} + 1` as unknown as number)
const isElsewhere = (sql: Sql, tenant: string) => {
  const first = firstRowIdSql(sql, tenant)
  return sql<boolean>`(${first} is null or row_id < ${first} or row_id >= ${endRowIdSql(sql, tenant)})`
}
const tasks = statement<Page>('fsck-source.tasks')((db, arg) =>
  db
    .selectFrom('tasks')
    .selectAll()
    .where('tenant', '=', arg('tenant'))
    .where('number', '>', arg('after'))
    .orderBy('number')
    .limit(arg('limit')),
)
const dependencies = statement<{ tenant: string }>('fsck-source.dependencies')((db, arg) =>
  db
    .selectFrom('task_dependencies')
    .select(['task_number', 'depends_on_number'])
    .where('tenant', '=', arg('tenant'))
    .orderBy('task_number')
    .orderBy('depends_on_number'),
)
const thoughts = statement<Page>('fsck-source.thoughts')((db, arg, { dialect, sql }) => {
  const page = db.selectFrom('thoughts').selectAll().limit(arg('limit'))
  if (dialect === 'postgres') {
    return page.where('tenant', '=', arg('tenant')).where('number', '>', arg('after')).orderBy('number')
  }
  return page.where(rowsAfter(sql, arg)).orderBy('row_id')
})
const sessions = statement<Page>('fsck-source.sessions')((db, arg) =>
  db
    .selectFrom('audit_sessions')
    .selectAll()
    .where('tenant', '=', arg('tenant'))
    .where('number', '>', arg('after'))
    .orderBy('number')
    .limit(arg('limit')),
)
const projects = statement<{ tenant: string }>('fsck-source.projects')((db, arg) =>
  db.selectFrom('projects').selectAll().where('tenant', '=', arg('tenant')).orderBy('slug'),
)
const policies = statement<{ tenant: string }>('fsck-source.policies')((db, arg) =>
  db.selectFrom('tool_policies').selectAll().where('tenant', '=', arg('tenant')).orderBy('id'),
)
const limits = statement<{ tenant: string }>('fsck-source.limits')((db, arg) =>
  db.selectFrom('usage_limits').selectAll().where('tenant', '=', arg('tenant')).orderBy('id'),
)
const runs = statement<{ tenant: string; after: string; limit: number }>('fsck-source.runs')((db, arg) =>
  db
    .selectFrom('runs')
    .select(['id', 'status', 'last_sequence'])
    .where('tenant', '=', arg('tenant'))
    .where('id', '>', arg('after'))
    .orderBy('id')
    .limit(arg('limit')),
)
const runEvents = statement<{ tenant: string; after_run: string; after: number; limit: number }>(
  'fsck-source.runEvents',
)((db, arg, { sql }) =>
  db
    .selectFrom('run_journal')
    .selectAll()
    .where('tenant', '=', arg('tenant'))
    .where(sql<boolean>`(run_id, sequence) > (${arg('after_run')}, ${arg('after')})`)
    .orderBy('run_id')
    .orderBy('sequence')
    .limit(arg('limit')),
)

/** `node` is where the checkpoints are: a store that several machines share knows of those of each. */
export function sqlFsckSource(
  tx: ReadTx,
  checkpoints: Pick<CheckpointStore, 'read' | 'tenants'>,
  node: string,
): FsckSource {
  const session = sessionOf(tx)

  async function* pages<Row>(
    source: Statement<Page, Row>,
    tenant: string,
    keyOf: (row: Row) => number,
  ): AsyncGenerator<Row> {
    for (let after = -1; ; ) {
      const rows = await session.all(source, { tenant, after, limit: PAGE })
      yield* rows
      if (rows.length < PAGE) return
      after = keyOf(rows.at(-1)!)
    }
  }

  /**
   * The row id decides the position of a row in SQLite; the checker verifies what the row claims to be. The program cannot find a
   * stray row, so it must not pass for the one that it claims to be.
   */
  async function* rowsById<Row extends { row_id: number }>(
    tenant: string,
    source: Statement<Page, Row>,
    strays: Statement<{ tenant: string }, Row>,
    keyOf: (row: Row) => number,
  ): AsyncGenerator<{ row: Row; isStray: boolean }> {
    const isSqlite = session.dialect === 'sqlite'
    const firstId = isSqlite ? firstRowId((await session.get(head, { tenant }))?.tenant_number ?? 0) : 0
    const positionOf = isSqlite ? (row: Row) => row.row_id - firstId : keyOf
    for await (const row of pages(source, tenant, positionOf)) yield { row, isStray: false }
    if (!isSqlite) return
    for (const row of await session.all(strays, { tenant })) yield { row, isStray: true }
  }

  return {
    async *tenants() {
      const stored = (await session.all(tenants, {})).map((row) => row.tenant)
      yield* new Set([...stored, ...(await checkpoints.tenants())])
    },
    async head(tenant) {
      const row = await session.get(head, { tenant })
      if (row === undefined) return undefined
      const counters = { tasks: row.task_count, thoughts: row.thought_count, sessions: row.session_count }
      const read = { size: row.size, peaks: row.peaks, counters }
      if (session.dialect !== 'sqlite') return read
      const index = await session.get(trailIndex, { tenant })
      return { ...read, trail: { to: row.trail_to, entries: index?.entries ?? 0, last: index?.last ?? null } }
    },
    checkpoint: (tenant) => checkpoints.read(tenantId(tenant)),
    anchor: (tenant) => findLogAnchor(tx, node, tenant),
    isAnchored: (tenant) => isLogAnchored(tx, tenant),
    identity: () => findLogIdentity(tx),
    async *logRows(tenant) {
      for await (const { row, isStray } of rowsById(tenant, entries, strayEntries, (entry) => entry.seq)) {
        yield {
          seq: isStray ? -1 - row.seq : row.seq,
          atMs: row.at,
          record: row.record,
          nodes: row.nodes,
          subject: row.task_number === null ? null : `task:${row.task_number}`,
          recordHash: row.record_hash,
        }
      }
    },
    async *projects(tenant) {
      for (const row of await session.all(projects, { tenant })) {
        yield {
          project: row.slug,
          created_at: timeOf(row.created_at),
          created_by: row.created_by,
          task_count: row.task_count,
        }
      }
    },
    async *tasks(tenant) {
      const dependsOn = new Map<number, string[]>()
      for (const link of await session.all(dependencies, { tenant })) {
        const known = dependsOn.get(link.task_number)
        if (known === undefined) dependsOn.set(link.task_number, [formatTaskId(link.depends_on_number)])
        else known.push(formatTaskId(link.depends_on_number))
      }
      for await (const row of pages(tasks, tenant, (task) => task.number)) {
        yield {
          task_id: formatTaskId(row.number),
          title: row.title,
          description: row.description,
          project: row.project,
          parent_id: row.parent_number === null ? null : formatTaskId(row.parent_number),
          status: row.status,
          priority: taskPriorities[row.priority_rank] ?? String(row.priority_rank),
          progress: row.progress,
          assignee: row.assignee,
          labels: parsed(row.labels) as string[],
          estimate_hours: row.estimate_hours,
          blocked_reason: row.blocked_reason,
          depends_on: dependsOn.get(row.number) ?? [],
          created_at: timeOf(row.created_at),
          created_by: row.created_by,
          sequence: row.sequence,
          updated_at: timeOf(row.updated_at),
          updated_by: row.updated_by,
        }
      }
    },
    async *thoughts(tenant) {
      for await (const { row, isStray } of rowsById(tenant, thoughts, strayThoughts, (thought) => thought.number)) {
        yield {
          thought_id: formatThoughtId(isStray ? -row.number : row.number),
          task_id: formatTaskId(row.task_number),
          type: row.type,
          content: row.content,
          branch: row.branch,
          commit_sha: row.commit_sha,
          tests_run: parsed(row.tests_run),
          blockers: parsed(row.blockers),
          metadata: parsed(row.metadata),
          previous_hash: row.previous_hash,
          recorded_at: timeOf(row.recorded_at),
          recorded_by: row.recorded_by,
          chain_position: row.chain_position,
          hash: row.hash,
          log_seq: row.log_seq,
        }
      }
    },
    async *sessions(tenant) {
      for await (const row of pages(sessions, tenant, (audit) => audit.number)) {
        yield {
          session_id: formatSessionId(row.number),
          task_id: formatTaskId(row.task_number),
          auditor_id: row.auditor_id,
          reason: row.reason,
          scope: row.scope,
          started_at: timeOf(row.started_at),
          started_by: row.started_by,
          start_seq: row.start_seq,
          merkle_root: row.merkle_root,
          tree_depth: row.tree_depth,
          leaf_count: row.leaf_count,
          finalized_at: row.finalized_at === null ? null : timeOf(row.finalized_at),
          end_seq: row.end_seq,
          finalized_task_id: row.only_task_number === null ? null : formatTaskId(row.only_task_number),
        }
      }
    },
    async *rules(table, tenant) {
      if (table === 'tool_policies') {
        for (const { id, kind, tool_id, action, note, conditions } of await session.all(policies, { tenant })) {
          yield { id, policy_kind: kind, tool_id, action, note, conditions: parsed(conditions) }
        }
        return
      }
      for (const row of await session.all(limits, { tenant })) {
        yield {
          id: row.id,
          entityType: row.entity_type,
          entityId: row.entity_id,
          limitType: row.limit_type,
          limitValue: row.limit_value,
          cleanupInterval: row.cleanup_interval,
          model: parsed(row.models),
          mcpServerName: nameIn(row.server),
          toolName: nameIn(row.tool),
        }
      }
    },
    async *runs(tenant) {
      for (let after = ''; ; ) {
        const rows = await session.all(runs, { tenant, after, limit: PAGE })
        for (const { id, status, last_sequence } of rows) yield { run_id: id, status, last_sequence }
        if (rows.length < PAGE) return
        after = rows.at(-1)!.id
      }
    },
    async *runEvents(tenant) {
      for (let last = { run_id: '', sequence: 0 }; ; ) {
        const args = { tenant, after_run: last.run_id, after: last.sequence, limit: PAGE }
        const rows = await session.all(runEvents, args)
        for (const { at, run_id, sequence, type, key, payload, state, iteration } of rows) {
          yield { run_id, sequence, type, key, payload, state, iteration, at_ms: at }
        }
        if (rows.length < PAGE) return
        last = rows.at(-1)!
      }
    },
  }
}

/** A value that cannot be parsed is passed on unchanged: the checker names it and continues. */
function parsed(text: string | null): unknown {
  if (text === null) return null
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

function nameIn(text: string | null): unknown {
  const value = parsed(text)
  return typeof value === 'object' && value !== null && 'name' in value ? value.name : value
}

function timeOf(ms: number): string {
  try {
    return isoTime(ms)
  } catch {
    return String(ms)
  }
}
