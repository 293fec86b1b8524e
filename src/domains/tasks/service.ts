import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import { canonicalJson, type Json } from '../../kernel/canonical-json.ts'
import { isoTime } from '../../kernel/clock.ts'
import { sha256Hex } from '../../kernel/hash.ts'
import { projectNotFound, requireTask } from './find-task.ts'
import type { Task, TaskStore } from './ports.ts'
import {
  formatTaskId,
  type TaskPriority,
  type TaskStatus,
  taskTransitions,
  UNASSIGNED,
  updateWarnings,
} from './rules.ts'
import { createTaskReads, type ThoughtTrail } from './task-reads.ts'

type TaskCreateInput = Readonly<{
  title: string
  description?: string | undefined
  project: string
  parent_id?: string | undefined
  priority: TaskPriority
  labels?: readonly string[] | undefined
  assignee?: string | undefined
  estimate_hours?: number | undefined
  depends_on?: readonly string[] | undefined
}>

type TaskUpdateInput = Readonly<{
  task_id: string
  status?: TaskStatus | undefined
  progress?: number | undefined
  description?: string | undefined
  priority?: TaskPriority | undefined
  assignee?: string | undefined
  labels?: readonly string[] | undefined
  blocked_reason?: string | undefined
  depends_on?: readonly string[] | undefined
}>

export type TaskService = ReturnType<typeof createTaskService>

const DEPENDENCY_WALK_MAX = 10_000

export function createTaskService(deps: {
  store: TaskStore
  trail: ThoughtTrail
  /** With strict projects, a task needs a project that project_create created. */
  strictProjects: boolean
}) {
  const { store } = deps

  async function create(call: Call, input: TaskCreateInput) {
    const { tenant, actor } = call.principal
    const parentNumber =
      input.parent_id === undefined
        ? null
        : (await requireTask(store, call.read, call.principal.tenant, input.parent_id, 'parent_id')).number
    const dependsOn = await resolveDependencies(call, input.depends_on ?? [])
    const sequence = await joinProject(call, input.project)
    const task: Task = {
      number: store.takeTaskNumber(call.write, tenant),
      title: input.title,
      description: input.description ?? '',
      project: input.project,
      sequence,
      status: 'backlog',
      priority: input.priority,
      progress: 0,
      assignee: input.assignee ?? UNASSIGNED,
      labels: input.labels ?? [],
      estimateHours: input.estimate_hours ?? null,
      blockedReason: null,
      parentNumber,
      createdAtMs: call.nowMs,
      createdBy: actor,
      updatedAtMs: call.nowMs,
      updatedBy: actor,
    }
    await store.insertTask(call.write, tenant, task)
    if (dependsOn.length > 0) await store.replaceDependencies(call.write, tenant, task.number, dependsOn)
    const taskId = formatTaskId(task.number)
    const createdAt = isoTime(call.nowMs)
    // The members are sorted, which makes canonical JSON cheapest; the same below.
    recordTask(call, 'task_created', task.number, {
      assignee: task.assignee,
      blocked_reason: null,
      created_at: createdAt,
      created_by: actor,
      depends_on: dependsOn.map(formatTaskId),
      description: task.description,
      estimate_hours: task.estimateHours,
      labels: task.labels,
      parent_id: parentNumber === null ? null : formatTaskId(parentNumber),
      priority: task.priority,
      progress: 0,
      project: task.project,
      sequence,
      status: task.status,
      task_id: taskId,
      title: task.title,
    })
    return { task_id: taskId, status: 'backlog' as const, created_at: createdAt, created_by: actor, sequence }
  }

  async function update(call: Call, input: TaskUpdateInput) {
    const { tenant, actor } = call.principal
    const before = await requireTask(store, call.read, call.principal.tenant, input.task_id, 'task_id')
    const status = input.status ?? before.status
    const statusChanged = status !== before.status
    if (statusChanged) requireTransition(before, status)
    const blockedReason = nextBlockedReason(before, input, status)
    const { changes, after } = applyChanges(before, input, status, blockedReason)
    if (input.depends_on !== undefined) {
      const dependsOn = await resolveDependencies(call, input.depends_on)
      const current = await store.dependencyNumbers(call.read, tenant, before.number)
      if (dependsOn.join() !== current.join()) {
        await requireNoCycle(call, before.number, dependsOn)
        await store.replaceDependencies(call.write, tenant, before.number, dependsOn)
        changes['depends_on'] = dependsOn.map(formatTaskId)
      }
    }
    const warnings = updateWarnings({
      status,
      progress: after.progress,
      statusChanged,
      isProgressSet: input.progress !== undefined,
      dependenciesUnmet: await store.countUnmetDependencies(call.read, tenant, before.number),
    })
    const changed = Object.keys(changes).length > 0
    if (changed) {
      await store.updateTask(call.write, tenant, before, { ...after, updatedAtMs: call.nowMs, updatedBy: actor })
      recordTask(call, 'task_updated', before.number, {
        task_id: formatTaskId(before.number),
        changes,
        previous_status: before.status,
        updated_at: isoTime(call.nowMs),
        updated_by: actor,
      })
    } else {
      warnings.push('Nothing changed: the task already has these values')
    }
    return {
      task_id: formatTaskId(before.number),
      status,
      progress: after.progress,
      updated_at: isoTime(changed ? call.nowMs : before.updatedAtMs),
      updated_by: changed ? actor : before.updatedBy,
      ...(statusChanged ? { previous_status: before.status } : {}),
      ...(warnings.length > 0 ? { warnings } : {}),
    }
  }

  async function createProject(call: Call, input: { project: string }) {
    const { tenant, actor } = call.principal
    if ((await store.findProject(call.read, tenant, input.project)) !== undefined) {
      throw new AppError('ERR_ALREADY_EXISTS', `Project '${input.project}' already exists.`, { field: 'project' })
    }
    await insertProject(call, input.project, 0)
    return { project: input.project, task_count: 0, created_at: isoTime(call.nowMs), created_by: actor }
  }

  async function joinProject(call: Call, slug: string): Promise<number> {
    const sequence = await store.takeProjectSequence(call.write, call.principal.tenant, slug)
    if (sequence !== undefined) return sequence
    if (deps.strictProjects) throw projectNotFound(slug)
    await insertProject(call, slug, 1)
    return 1
  }

  async function insertProject(call: Call, slug: string, taskCount: number): Promise<void> {
    const { tenant, actor } = call.principal
    await store.insertProject(call.write, tenant, { slug, taskCount, createdAtMs: call.nowMs, createdBy: actor })
    call.record({
      kind: 'project_created',
      body: { project: slug, created_at: isoTime(call.nowMs), created_by: actor },
    })
  }

  async function resolveDependencies(call: Call, ids: readonly string[]): Promise<number[]> {
    const numbers: number[] = []
    for (const id of new Set(ids))
      numbers.push((await requireTask(store, call.read, call.principal.tenant, id, 'depends_on')).number)
    return numbers.sort((a, b) => a - b)
  }

  /** Walks the dependencies of the new dependencies; reaching the task itself is a cycle. */
  async function requireNoCycle(call: Call, number: number, dependsOn: readonly number[]): Promise<void> {
    const cameFrom = new Map<number, number>()
    const open = [...dependsOn]
    for (const next of dependsOn) cameFrom.set(next, number)
    for (let current = open.pop(); current !== undefined; current = open.pop()) {
      if (current === number) throw circularDependency(number, cameFrom)
      if (cameFrom.size > DEPENDENCY_WALK_MAX) {
        throw new AppError('ERR_TOO_LARGE', `The dependencies span more than ${DEPENDENCY_WALK_MAX} tasks.`, {
          field: 'depends_on',
        })
      }
      for (const next of await store.dependencyNumbers(call.read, call.principal.tenant, current)) {
        if (cameFrom.has(next)) continue
        cameFrom.set(next, current)
        open.push(next)
      }
    }
  }

  return { create, update, createProject, ...createTaskReads(deps) }
}

function recordTask(call: Call, kind: string, number: number, body: Record<string, Json>): void {
  const bodyText = canonicalJson(body)
  call.record({ kind, subject: `task:${number}`, hash: sha256Hex(bodyText), body, bodyText })
}

function requireTransition(before: Task, status: TaskStatus): void {
  const allowed = taskTransitions[before.status]
  if (allowed.includes(status)) return
  const next =
    allowed.length === 0 ? `'${before.status}' is terminal` : `allowed from '${before.status}': ${allowed.join(', ')}`
  throw new AppError(
    'ERR_INVALID_TRANSITION',
    `Task ${formatTaskId(before.number)} cannot go from '${before.status}' to '${status}': ${next}.`,
    { field: 'status', from: before.status, to: status, allowed },
  )
}

function nextBlockedReason(before: Task, input: TaskUpdateInput, status: TaskStatus): string | null {
  if (input.blocked_reason !== undefined) return input.blocked_reason
  if (status !== 'blocked') return before.status === 'blocked' ? null : before.blockedReason
  if (before.blockedReason !== null) return before.blockedReason
  throw new AppError('ERR_INVALID_INPUT', "'blocked_reason' is required when status is 'blocked'.", {
    field: 'blocked_reason',
    constraint: "required if status='blocked'",
  })
}

/** The differences, by public field name, and the changed task. */
function applyChanges(before: Task, input: TaskUpdateInput, status: TaskStatus, blockedReason: string | null) {
  const after: Task = {
    ...before,
    status,
    blockedReason,
    progress: input.progress ?? before.progress,
    description: input.description ?? before.description,
    priority: input.priority ?? before.priority,
    assignee: input.assignee ?? before.assignee,
    labels: input.labels ?? before.labels,
  }
  const changes: Record<string, Json> = {}
  if (after.status !== before.status) changes['status'] = after.status
  if (after.progress !== before.progress) changes['progress'] = after.progress
  if (after.description !== before.description) changes['description'] = after.description
  if (after.priority !== before.priority) changes['priority'] = after.priority
  if (after.assignee !== before.assignee) changes['assignee'] = after.assignee
  if (JSON.stringify(after.labels) !== JSON.stringify(before.labels)) changes['labels'] = [...after.labels]
  if (after.blockedReason !== before.blockedReason) changes['blocked_reason'] = after.blockedReason
  return { changes, after }
}

function circularDependency(number: number, cameFrom: ReadonlyMap<number, number>): AppError {
  const path = [number]
  for (let step = cameFrom.get(number); step !== undefined && step !== number; step = cameFrom.get(step))
    path.push(step)
  const circle = [...path, number].reverse().map(formatTaskId)
  return new AppError('ERR_CIRCULAR_DEPENDENCY', `The dependency creates a cycle: ${circle.join(' → ')}.`, {
    field: 'depends_on',
    circle,
  })
}
