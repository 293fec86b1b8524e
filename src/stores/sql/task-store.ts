import type { Selectable } from 'kysely'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'
import type { Project, Task, TaskStore } from '../../domains/tasks/ports.ts'
import { finishedStatuses, type TaskStatus, taskPriorities } from '../../domains/tasks/rules.ts'
import type { ProjectTable, TaskTable } from './schema.ts'
import { type Session, statement } from './statements.ts'
import { noteChangedTask, noteInsertedTask } from './task-index.ts'
import { countTasks, listTasks } from './task-list.ts'
import { storeProjectCounts } from './tenant-head.ts'
import { headOf, sessionOf, takeNumber, writeHeadOf, writerOf } from './tx.ts'

type TaskKey = { tenant: string; number: number }

type ProjectKey = { tenant: string; slug: string }

/** With PostgreSQL one round trip; with SQLite the count is held until the end of the batch. */
const takeSequence = statement<ProjectKey>('task-store.takeSequence')((db, arg) =>
  db
    .updateTable('projects')
    .set((expression) => ({ task_count: expression('task_count', '+', 1) }))
    .where('tenant', '=', arg('tenant'))
    .where('slug', '=', arg('slug'))
    .returning('task_count'),
)

type TaskRow = Omit<Selectable<TaskTable>, 'row_id'>

/** The columns of a task, without the row id and PostgreSQL's search column. */
const taskColumns = [
  'number',
  'project',
  'sequence',
  'title',
  'description',
  'status',
  'priority_rank',
  'progress',
  'assignee',
  'labels',
  'estimate_hours',
  'blocked_reason',
  'parent_number',
  'created_at',
  'created_by',
  'updated_at',
  'updated_by',
] as const satisfies readonly (keyof TaskRow)[]

const updatedColumns = [
  'description',
  'status',
  'priority_rank',
  'progress',
  'assignee',
  'labels',
  'blocked_reason',
  'updated_at',
  'updated_by',
] as const
const insertTask = statement<TaskRow>('task-store.insertTask')((db, _arg, { columns }) =>
  db
    .insertInto('tasks')
    .values(
      columns([
        'tenant',
        'number',
        'project',
        'sequence',
        'title',
        'estimate_hours',
        'parent_number',
        'created_at',
        'created_by',
        ...updatedColumns,
      ]),
    ),
)

const updateTask = statement<TaskRow>('task-store.updateTask')((db, arg, { columns }) =>
  db
    .updateTable('tasks')
    .set(columns(updatedColumns))
    .where('tenant', '=', arg('tenant'))
    .where('number', '=', arg('number')),
)
const insertLabel = statement<{ tenant: string; number: number; label: string }>('task-store.insertLabel')((db, arg) =>
  db
    .insertInto('task_labels')
    .values({ tenant: arg('tenant'), task_number: arg('number'), label: arg('label') })
    .onConflict((conflict) => conflict.doNothing()),
)
const deleteLabel = statement<{ tenant: string; number: number; label: string }>('task-store.deleteLabel')((db, arg) =>
  db
    .deleteFrom('task_labels')
    .where('tenant', '=', arg('tenant'))
    .where('label', '=', arg('label'))
    .where('task_number', '=', arg('number')),
)

const findTask = statement<TaskKey>('task-store.findTask')((db, arg) =>
  db.selectFrom('tasks').select(taskColumns).where('tenant', '=', arg('tenant')).where('number', '=', arg('number')),
)
const hasTask = statement<TaskKey>('task-store.hasTask')((db, arg) =>
  db.selectFrom('tasks').select('number').where('tenant', '=', arg('tenant')).where('number', '=', arg('number')),
)
const childNumbers = statement<TaskKey>('task-store.childNumbers')((db, arg) =>
  db
    .selectFrom('tasks')
    .select('number')
    .where('tenant', '=', arg('tenant'))
    .where('parent_number', '=', arg('number'))
    .orderBy('number'),
)
const latestProject = statement<{ tenant: string }>('task-store.latestProject')((db, arg) =>
  db
    .selectFrom('tasks')
    .select('project')
    .where('tenant', '=', arg('tenant'))
    .orderBy('updated_at', 'desc')
    .orderBy('number', 'desc')
    .limit(1),
)

const unmetOf = (status: string) => finishedStatuses.includes(status as TaskStatus) === false

const dependencyNumbers = statement<TaskKey>('task-store.dependencyNumbers')((db, arg) =>
  db
    .selectFrom('task_dependencies')
    .select('depends_on_number')
    .where('tenant', '=', arg('tenant'))
    .where('task_number', '=', arg('number'))
    .orderBy('depends_on_number'),
)
const dependencyStatuses = statement<TaskKey>('task-store.dependencyStatuses')((db, arg) =>
  db
    .selectFrom('task_dependencies')
    .innerJoin('tasks', (join) =>
      join.onRef('tasks.tenant', '=', 'task_dependencies.tenant').onRef('tasks.number', '=', 'depends_on_number'),
    )
    .select('tasks.status')
    .where('task_dependencies.tenant', '=', arg('tenant'))
    .where('task_number', '=', arg('number')),
)
const insertDependency = statement<{ tenant: string; number: number; depends_on: number }>(
  'task-store.insertDependency',
)((db, arg) =>
  db
    .insertInto('task_dependencies')
    .values({ tenant: arg('tenant'), task_number: arg('number'), depends_on_number: arg('depends_on') }),
)
const deleteDependencies = statement<TaskKey>('task-store.deleteDependencies')((db, arg) =>
  db.deleteFrom('task_dependencies').where('tenant', '=', arg('tenant')).where('task_number', '=', arg('number')),
)

const nextActions = statement<{ tenant: string; project: string; limit: number }>('task-store.nextActions')((db, arg) =>
  db
    .selectFrom((inner) =>
      inner
        .selectFrom('tasks')
        .select((expression) => [
          'number',
          'title',
          'priority_rank',
          'assignee',
          'estimate_hours',
          'parent_number',
          expression
            .selectFrom('task_dependencies as link')
            .innerJoin('tasks as other', (join) =>
              join.onRef('other.tenant', '=', 'link.tenant').onRef('other.number', '=', 'link.depends_on_number'),
            )
            .select((count) => count.fn.countAll<number>().as('count'))
            .whereRef('link.tenant', '=', 'tasks.tenant')
            .whereRef('link.task_number', '=', 'tasks.number')
            .where('other.status', 'not in', [...finishedStatuses])
            .as('unmet'),
        ])
        .where('tenant', '=', arg('tenant'))
        .where('project', '=', arg('project'))
        .where('status', '=', 'todo')
        .as('candidate'),
    )
    .selectAll()
    .orderBy((expression) => expression.case().when('unmet', '=', 0).then(0).else(1).end())
    .orderBy('priority_rank', 'desc')
    .orderBy('number')
    .limit(arg('limit')),
)
const blockedTasks = statement<{ tenant: string; project: string; limit: number }>('task-store.blockedTasks')(
  (db, arg) =>
    db
      .selectFrom('tasks')
      .select(taskColumns)
      .where('tenant', '=', arg('tenant'))
      .where('project', '=', arg('project'))
      .where('status', '=', 'blocked')
      .orderBy('priority_rank', 'desc')
      .orderBy('number')
      .limit(arg('limit')),
)

const insertProject = statement<Selectable<ProjectTable>>('task-store.insertProject')((db, _arg, { columns }) =>
  db.insertInto('projects').values(columns(['tenant', 'slug', 'task_count', 'created_at', 'created_by'])),
)
const findProject = statement<{ tenant: string; slug: string }>('task-store.findProject')((db, arg) =>
  db.selectFrom('projects').selectAll().where('tenant', '=', arg('tenant')).where('slug', '=', arg('slug')),
)
const listProjects = statement<{ tenant: string; limit: number; offset: number }>('task-store.listProjects')(
  (db, arg, { dialect }) =>
    db
      .selectFrom('projects')
      .selectAll()
      .where('tenant', '=', arg('tenant'))
      .orderBy('slug', (order) => (dialect === 'postgres' ? order.collate('C') : order))
      .limit(arg('limit'))
      .offset(arg('offset')),
)
const countProjects = statement<{ tenant: string }>('task-store.countProjects')((db, arg) =>
  db
    .selectFrom('projects')
    .select((expression) => expression.fn.countAll<number>().as('count'))
    .where('tenant', '=', arg('tenant')),
)

export const sqlTaskStore: TaskStore = {
  takeTaskNumber: (tx, tenant) => takeNumber(tx, tenant, 'taskCount'),
  async takeProjectSequence(tx, tenant, slug) {
    const session = writerOf(tx, tenant)
    if (session.dialect === 'postgres') return (await session.get(takeSequence, { tenant, slug }))?.task_count
    const { state } = headOf(tx, tenant)
    const count = state.projectCounts?.get(slug) ?? (await session.get(findProject, { tenant, slug }))?.task_count
    if (count === undefined) return undefined
    state.projectCounts = new Map(state.projectCounts).set(slug, count + 1)
    return count + 1
  },
  async insertTask(tx, tenant, task) {
    const session = writerOf(tx, tenant)
    await session.run(insertTask, toRow(tenant, task))
    if (session.dialect === 'sqlite') noteInsertedTask(tx, tenant)
    else await changeLabels(session, tenant, task.number, [], task.labels)
  },
  async updateTask(tx, tenant, before, after) {
    const session = writerOf(tx, tenant)
    if ((await session.run(updateTask, toRow(tenant, after))) !== 1) throw new Error('a task to update does not exist')
    if (before.description === after.description && before.labels === after.labels) return
    if (session.dialect === 'sqlite' && !(await noteChangedTask(tx, tenant, before, after))) return
    await changeLabels(session, tenant, after.number, before.labels, after.labels)
  },
  async findTask(tx, tenant, number) {
    const row = await sessionOf(tx).get(findTask, { tenant, number })
    return row === undefined ? undefined : fromRow(row)
  },
  async hasTask(tx, tenant, number) {
    return (await sessionOf(tx).get(hasTask, { tenant, number })) !== undefined
  },
  listTasks,
  countTasks,
  async childNumbers(tx, tenant, number) {
    return (await sessionOf(tx).all(childNumbers, { tenant, number })).map((row) => row.number)
  },
  async listNextActions(tx, tenant, project, limit) {
    const rows = await sessionOf(tx).all(nextActions, { tenant, project, limit })
    return rows.map((row) => ({
      number: row.number,
      title: row.title,
      priority: taskPriorities[row.priority_rank]!,
      assignee: row.assignee,
      estimateHours: row.estimate_hours,
      parentNumber: row.parent_number,
      dependenciesUnmet: row.unmet ?? 0,
    }))
  },
  async listBlocked(tx, tenant, project, limit) {
    return (await sessionOf(tx).all(blockedTasks, { tenant, project, limit })).map(fromRow)
  },
  async latestProject(tx, tenant) {
    return (await sessionOf(tx).get(latestProject, { tenant }))?.project
  },
  async dependencyNumbers(tx, tenant, number) {
    return (await sessionOf(tx).all(dependencyNumbers, { tenant, number })).map((row) => row.depends_on_number)
  },
  async replaceDependencies(tx, tenant, number, dependsOn) {
    const session = writerOf(tx, tenant)
    await session.run(deleteDependencies, { tenant, number })
    for (const depends_on of dependsOn) await session.run(insertDependency, { tenant, number, depends_on })
  },
  async countUnmetDependencies(tx, tenant, number) {
    const rows = await sessionOf(tx).all(dependencyStatuses, { tenant, number })
    return rows.filter((row) => unmetOf(row.status)).length
  },
  async insertProject(tx, tenant, project) {
    await writerOf(tx, tenant).run(insertProject, {
      tenant,
      slug: project.slug,
      task_count: project.taskCount,
      created_at: project.createdAtMs,
      created_by: project.createdBy,
    })
  },
  async findProject(tx, tenant, slug) {
    await storeOwnCounts(tx)
    const row = await sessionOf(tx).get(findProject, { tenant, slug })
    return row === undefined ? undefined : toProject(row)
  },
  async listProjects(tx, tenant, page) {
    await storeOwnCounts(tx)
    return (await sessionOf(tx).all(listProjects, { tenant, ...page })).map(toProject)
  },
  async countProjects(tx, tenant) {
    return (await sessionOf(tx).get(countProjects, { tenant }))?.count ?? 0
  },
}

async function storeOwnCounts(tx: ReadTx | WriteTx): Promise<void> {
  const head = writeHeadOf(tx)
  if (head !== undefined) await storeProjectCounts(sessionOf(tx), head)
}

async function changeLabels(
  session: Session,
  tenant: string,
  number: number,
  before: readonly string[],
  after: readonly string[],
): Promise<void> {
  for (const label of new Set(before)) {
    if (!after.includes(label)) await session.run(deleteLabel, { tenant, number, label })
  }
  for (const label of new Set(after)) {
    if (!before.includes(label)) await session.run(insertLabel, { tenant, number, label })
  }
}

function toRow(tenant: string, task: Task): TaskRow {
  return {
    tenant,
    number: task.number,
    project: task.project,
    sequence: task.sequence,
    title: task.title,
    description: task.description,
    status: task.status,
    priority_rank: taskPriorities.indexOf(task.priority),
    progress: task.progress,
    assignee: task.assignee,
    labels: JSON.stringify(task.labels),
    estimate_hours: task.estimateHours,
    blocked_reason: task.blockedReason,
    parent_number: task.parentNumber,
    created_at: task.createdAtMs,
    created_by: task.createdBy,
    updated_at: task.updatedAtMs,
    updated_by: task.updatedBy,
  }
}

function fromRow(row: Omit<TaskRow, 'tenant'>): Task {
  return {
    number: row.number,
    title: row.title,
    description: row.description,
    project: row.project,
    sequence: row.sequence,
    status: row.status as TaskStatus,
    priority: taskPriorities[row.priority_rank]!,
    progress: row.progress,
    assignee: row.assignee,
    labels: row.labels === '[]' ? [] : (JSON.parse(row.labels) as string[]),
    estimateHours: row.estimate_hours,
    blockedReason: row.blocked_reason,
    parentNumber: row.parent_number,
    createdAtMs: row.created_at,
    createdBy: row.created_by,
    updatedAtMs: row.updated_at,
    updatedBy: row.updated_by,
  }
}

const toProject = (row: Selectable<ProjectTable>): Project => ({
  slug: row.slug,
  taskCount: row.task_count,
  createdAtMs: row.created_at,
  createdBy: row.created_by,
})
