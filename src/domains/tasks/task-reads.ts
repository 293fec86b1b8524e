import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import type { TenantId } from '../../contract/principal.ts'
import type { ReadTx } from '../../contract/tx.ts'
import { isoTime } from '../../kernel/clock.ts'
import { projectNotFound, requireTask } from './find-task.ts'
import type { TaskFilter, TaskStore } from './ports.ts'
import { formatTaskId, searchWords, type TaskPriority, type TaskStatus } from './rules.ts'

type TaskListInput = Readonly<{
  project?: string | undefined
  status?: readonly TaskStatus[] | undefined
  priority?: readonly TaskPriority[] | undefined
  assignee?: string | undefined
  label?: string | undefined
  created_after?: string | undefined
  created_before?: string | undefined
  search?: string | undefined
  limit: number
  offset: number
  sort_by: 'created' | 'updated' | 'priority' | 'progress'
  sort_order: 'asc' | 'desc'
}>

/** The thoughts of a task, as far as this domain needs them. */
export type ThoughtTrail = Readonly<{
  thoughtIds(tx: ReadTx, tenant: TenantId, taskNumber: number, limit: number): Promise<string[]>
}>

const RELATED_IDS_MAX = 1_000

/** The read-only part of the task service. */
export function createTaskReads(deps: { store: TaskStore; trail: ThoughtTrail }) {
  const { store } = deps

  async function get(
    call: Call,
    input: { task_id: string; include_thought_trail: boolean; include_dependents: boolean },
  ) {
    const { tenant } = call.principal
    const task = await requireTask(store, call.read, call.principal.tenant, input.task_id, 'task_id')
    const dependsOn = await store.dependencyNumbers(call.read, tenant, task.number)
    return {
      task_id: formatTaskId(task.number),
      title: task.title,
      description: task.description,
      project: task.project,
      status: task.status,
      priority: task.priority,
      progress: task.progress,
      assignee: task.assignee,
      labels: [...task.labels],
      ...(task.estimateHours === null ? {} : { estimate_hours: task.estimateHours }),
      created_at: isoTime(task.createdAtMs),
      updated_at: isoTime(task.updatedAtMs),
      created_by: task.createdBy,
      updated_by: task.updatedBy,
      sequence: task.sequence,
      ...(task.parentNumber === null ? {} : { parent_id: formatTaskId(task.parentNumber) }),
      ...(task.blockedReason === null ? {} : { blocked_reason: task.blockedReason }),
      ...(dependsOn.length === 0 ? {} : { depends_on: dependsOn.map(formatTaskId) }),
      ...(input.include_thought_trail
        ? { thought_trail: await deps.trail.thoughtIds(call.read, tenant, task.number, RELATED_IDS_MAX) }
        : {}),
      ...(input.include_dependents
        ? { dependents: (await store.childNumbers(call.read, tenant, task.number)).map(formatTaskId) }
        : {}),
    }
  }

  async function list(call: Call, input: TaskListInput) {
    const filter = toFilter(input)
    const { tenant } = call.principal
    const rows = await store.listTasks(call.read, tenant, filter, {
      limit: input.limit,
      offset: input.offset,
      sortBy: input.sort_by,
      sortOrder: input.sort_order,
    })
    const total = await store.countTasks(call.read, tenant, filter)
    return {
      tasks: rows.map((task) => ({
        task_id: formatTaskId(task.number),
        title: task.title,
        project: task.project,
        status: task.status,
        priority: task.priority,
        progress: task.progress,
        assignee: task.assignee,
        created_at: isoTime(task.createdAtMs),
        updated_at: isoTime(task.updatedAtMs),
      })),
      total_count: total,
      returned_count: rows.length,
      offset: input.offset,
      limit: input.limit,
    }
  }

  async function nextActions(
    call: Call,
    input: { project?: string | undefined; limit: number; include_blocked: boolean },
  ) {
    const { tenant } = call.principal
    if (input.project !== undefined && (await store.findProject(call.read, tenant, input.project)) === undefined) {
      throw projectNotFound(input.project)
    }
    const project = input.project ?? (await store.latestProject(call.read, tenant)) ?? ''
    const actions = await store.listNextActions(call.read, tenant, project, input.limit)
    const blocked = input.include_blocked ? await store.listBlocked(call.read, tenant, project, input.limit) : undefined
    return {
      next_actions: actions.map((action) => ({
        task_id: formatTaskId(action.number),
        title: action.title,
        priority: action.priority,
        assignee: action.assignee,
        ...(action.estimateHours === null ? {} : { estimate_hours: action.estimateHours }),
        ...(action.parentNumber === null ? {} : { parent_id: formatTaskId(action.parentNumber) }),
        dependencies_unmet: action.dependenciesUnmet,
      })),
      count: actions.length,
      project,
      ...(blocked === undefined
        ? {}
        : {
            blocked: blocked.map((task) => ({
              task_id: formatTaskId(task.number),
              title: task.title,
              blocked_reason: task.blockedReason ?? '',
            })),
          }),
    }
  }

  async function listProjects(call: Call, input: { limit: number; offset: number }) {
    const { tenant } = call.principal
    const rows = await store.listProjects(call.read, tenant, input)
    return {
      projects: rows.map((row) => ({
        project: row.slug,
        task_count: row.taskCount,
        created_at: isoTime(row.createdAtMs),
        created_by: row.createdBy,
      })),
      total_count: await store.countProjects(call.read, tenant),
      offset: input.offset,
      limit: input.limit,
    }
  }

  return { get, list, nextActions, listProjects }
}

function toFilter(input: TaskListInput): TaskFilter {
  const words = input.search === undefined ? undefined : searchWords(input.search)
  if (words?.length === 0) {
    throw new AppError('ERR_INVALID_INPUT', "'search' must contain at least one word (a letter or a digit).", {
      field: 'search',
      constraint: 'at least one word',
    })
  }
  return {
    ...(input.project === undefined ? {} : { project: input.project }),
    ...(input.status === undefined ? {} : { status: input.status }),
    ...(input.priority === undefined ? {} : { priority: input.priority }),
    ...(input.assignee === undefined ? {} : { assignee: input.assignee }),
    ...(input.label === undefined ? {} : { label: input.label }),
    ...(input.created_after === undefined ? {} : { createdAfterMs: Date.parse(input.created_after) }),
    ...(input.created_before === undefined ? {} : { createdBeforeMs: Date.parse(input.created_before) }),
    ...(words === undefined ? {} : { words }),
  }
}
