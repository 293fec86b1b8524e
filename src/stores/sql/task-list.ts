import type { ExpressionBuilder } from 'kysely'
import type { TaskFilter, TaskPage, TaskStore, TaskSummary } from '../../domains/tasks/ports.ts'
import { type TaskPriority, type TaskStatus, taskPriorities } from '../../domains/tasks/rules.ts'
import type { Schema } from './schema.ts'
import { type Builder, type Dialect, type Kit, statement, statementFamily, type Value } from './statements.ts'
import { prepareSearch } from './task-index.ts'
import { storeProjectCounts } from './tenant-head.ts'
import { sessionOf, writeHeadOf } from './tx.ts'

/**
 * The filtered list and its count. Which filters are present, and how many values a list filter has, is the shape of the
 * statement; each shape is compiled once.
 */
type Args = Record<string, Value>

const present = (filter: TaskFilter): string =>
  [
    filter.project === undefined ? '' : 'p',
    filter.status === undefined ? '' : `s${new Set(filter.status).size}`,
    filter.priority === undefined ? '' : `r${new Set(filter.priority).size}`,
    filter.assignee === undefined ? '' : 'a',
    filter.label === undefined ? '' : 'l',
    filter.createdAfterMs === undefined ? '' : 'f',
    filter.createdBeforeMs === undefined ? '' : 'b',
    filter.words === undefined ? '' : 'w',
  ].join(':')

/** Frequent filters of boards and agents; other shapes are compiled on first use. */
const usualFilters: readonly TaskFilter[] = [
  {},
  { project: '' },
  { status: ['todo'] },
  { assignee: '' },
  { label: '' },
  { words: [] },
  { project: '', words: [] },
  { project: '', status: ['todo'] },
  { project: '', status: ['todo', 'in_progress'] },
  { project: '', assignee: '' },
]
const usualShapes = usualFilters.map(present)

type Arg = (name: string) => Value

function conditions(shape: string, expression: ExpressionBuilder<Schema, 'tasks'>, arg: Arg, kit: Kit) {
  const [project, status, priority, assignee, label, after, before, words] = shape.split(':')
  const values = (prefix: string, part: string) =>
    Array.from({ length: Number(part.slice(1)) }, (_, index) => arg(`${prefix}${index}`) as never)
  const and = [expression('tasks.tenant', '=', arg('tenant') as string)]
  if (project) and.push(expression('tasks.project', '=', arg('project') as string))
  if (status) and.push(expression('tasks.status', 'in', values('status', status)))
  if (priority) and.push(expression('tasks.priority_rank', 'in', values('priority', priority)))
  if (assignee) and.push(expression('tasks.assignee', '=', arg('assignee') as string))
  if (after) and.push(expression('tasks.created_at', '>', arg('created_after') as number))
  if (before) and.push(expression('tasks.created_at', '<', arg('created_before') as number))
  if (label) and.push(hasLabel(expression, arg('label'), kit) as never)
  if (words) and.push(hasWords(arg('words'), kit) as never)
  return expression.and(and as never)
}

function hasLabel(expression: ExpressionBuilder<Schema, 'tasks'>, label: Value, { dialect, sql }: Kit) {
  const entered = expression.exists(
    expression
      .selectFrom('task_labels')
      .select('label')
      .whereRef('task_labels.tenant', '=', 'tasks.tenant')
      .whereRef('task_labels.task_number', '=', 'tasks.number')
      .where('label', '=', label as string),
  )
  if (dialect === 'postgres') return entered
  return sql`case when tasks.row_id <= (select indexed_to from task_index) then ${entered}
    else exists (select 1 from json_each(tasks.labels) where value = ${label}) end`
}

const hasWords = (words: Value, { dialect, sql }: Kit) =>
  dialect === 'postgres'
    ? sql`tasks.search @@ plainto_tsquery('castellan_words', castellan_fold(${words}))`
    : sql`tasks.row_id in (
        select rowid from tasks_search where tasks_search match ${words}
        union all
        select rowid from temp.tail_search
        where tail_search match ${words} and rowid > (select indexed_to from task_index))`

const sortColumns = {
  created: 'tasks.created_at',
  updated: 'tasks.updated_at',
  priority: 'tasks.priority_rank',
  progress: 'tasks.progress',
} as const

type SummaryRow = {
  number: number
  title: string
  project: string
  status: string
  priority_rank: number
  progress: number
  assignee: string
  created_at: number
  updated_at: number
}

const listFamily = statementFamily<Args, SummaryRow>(
  'task-list.listFamily',
  (shape): Builder<Args, SummaryRow> => {
    const [filterShape, sortBy, sortOrder] = shape.split('/') as [string, keyof typeof sortColumns, 'asc' | 'desc']
    return (db, arg, kit) =>
      db
        .selectFrom('tasks')
        .select([
          'number',
          'title',
          'project',
          'status',
          'priority_rank',
          'progress',
          'assignee',
          'created_at',
          'updated_at',
        ])
        .where((expression) => conditions(filterShape, expression, arg, kit))
        .orderBy(sortColumns[sortBy], sortOrder)
        .orderBy('number', sortOrder)
        .limit(arg('limit') as number)
        .offset(arg('offset') as number)
  },
  usualShapes.flatMap((shape) => [
    `${shape}/updated/desc`,
    ...(shape === present({}) ? ['created', 'priority', 'progress'].map((sort) => `${shape}/${sort}/desc`) : []),
  ]),
)

const countFamily = statementFamily<Args, { count: number }>(
  'task-list.countFamily',
  (shape): Builder<Args, { count: number }> =>
    (db, arg, kit) =>
      db
        .selectFrom('tasks')
        .select((expression) => expression.fn.countAll<number>().as('count'))
        .where((expression) => conditions(shape, expression, arg, kit)),
  usualShapes,
)

/** Tasks are never deleted, so a tenant's or a project's number of tasks is already known. */
const tenantCount = statement<{ tenant: string }>('task-list.tenantCount')((db, arg) =>
  db.selectFrom('log_heads').select('task_count as count').where('tenant', '=', arg('tenant')),
)
const projectCount = statement<{ tenant: string; slug: string }>('task-list.projectCount')((db, arg) =>
  db
    .selectFrom('projects')
    .select('task_count as count')
    .where('tenant', '=', arg('tenant'))
    .where('slug', '=', arg('slug')),
)

function filterArgs(tenant: string, filter: TaskFilter, dialect: Dialect): Args {
  const args: Args = { tenant }
  if (filter.project !== undefined) args['project'] = filter.project
  for (const [index, status] of [...new Set(filter.status)].entries()) args[`status${index}`] = status
  for (const [index, priority] of [...new Set(filter.priority)].entries()) {
    args[`priority${index}`] = taskPriorities.indexOf(priority as TaskPriority)
  }
  if (filter.assignee !== undefined) args['assignee'] = filter.assignee
  if (filter.label !== undefined) args['label'] = filter.label
  if (filter.createdAfterMs !== undefined) args['created_after'] = filter.createdAfterMs
  if (filter.createdBeforeMs !== undefined) args['created_before'] = filter.createdBeforeMs
  if (filter.words !== undefined) {
    args['words'] = dialect === 'sqlite' ? filter.words.map(quoted).join(' ') : filter.words.join(' ')
  }
  return args
}

/** FTS5 reads a quoted string as plain words, whatever operators it contains. */
const quoted = (word: string): string => `"${word.replaceAll('"', '""')}"`

export const listTasks: TaskStore['listTasks'] = async (tx, tenant, filter, page: TaskPage) => {
  const session = sessionOf(tx)
  if (filter.words !== undefined && session.dialect === 'sqlite') await prepareSearch(tx)
  const member = listFamily(`${present(filter)}/${page.sortBy}/${page.sortOrder}`)
  const args = { ...filterArgs(tenant, filter, session.dialect), limit: page.limit, offset: page.offset }
  const rows = await session.all(member, args)
  return rows.map(
    (row): TaskSummary => ({
      number: row.number,
      title: row.title,
      project: row.project,
      status: row.status as TaskStatus,
      priority: taskPriorities[row.priority_rank]!,
      progress: row.progress,
      assignee: row.assignee,
      createdAtMs: row.created_at,
      updatedAtMs: row.updated_at,
    }),
  )
}

export const countTasks: TaskStore['countTasks'] = async (tx, tenant, filter) => {
  const session = sessionOf(tx)
  if (filter.words !== undefined && session.dialect === 'sqlite') await prepareSearch(tx)
  const input = Object.keys(filter)
  if (input.length === 0)
    return writeHeadOf(tx)?.state.taskCount ?? (await session.get(tenantCount, { tenant }))?.count ?? 0
  if (input.length === 1 && filter.project !== undefined) {
    const head = writeHeadOf(tx)
    if (head !== undefined) await storeProjectCounts(session, head)
    return (await session.get(projectCount, { tenant, slug: filter.project }))?.count ?? 0
  }
  const args = filterArgs(tenant, filter, session.dialect)
  return (await session.get(countFamily(present(filter)), args))?.count ?? 0
}
