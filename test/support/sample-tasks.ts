import type { Database } from '../../src/contract/database.ts'
import { type TenantId, tenantId } from '../../src/contract/principal.ts'
import type { WriteTx } from '../../src/contract/tx.ts'
import type { Task } from '../../src/domains/tasks/ports.ts'
import { sqlTaskStore as tasks } from '../../src/stores/sql/task-store.ts'

export const ACME = tenantId('acme')
export const OTHER = tenantId('other')
export const NOW = 1_767_225_600_000

export type TaskDraft = Partial<Omit<Task, 'number' | 'sequence'>>

/** Adds a task the way the service does: the project with its first task, the number, then the row. */
export async function addTaskIn(tx: WriteTx, tenant: TenantId, draft: TaskDraft = {}): Promise<Task> {
  const project = draft.project ?? 'alpha'
  let sequence = await tasks.takeProjectSequence(tx, tenant, project)
  if (sequence === undefined) {
    await tasks.insertProject(tx, tenant, { slug: project, taskCount: 1, createdAtMs: NOW, createdBy: 'owner' })
    sequence = 1
  }
  const number = tasks.takeTaskNumber(tx, tenant)
  const task: Task = {
    number,
    title: `Task ${number}`,
    description: '',
    project,
    sequence,
    status: 'backlog',
    priority: 'normal',
    progress: 0,
    assignee: 'unassigned',
    labels: [],
    estimateHours: null,
    blockedReason: null,
    parentNumber: null,
    createdAtMs: NOW + number,
    createdBy: 'owner',
    updatedAtMs: NOW + number,
    updatedBy: 'owner',
    ...draft,
  }
  await tasks.insertTask(tx, tenant, task)
  return task
}

export const addTask = (database: Database, tenant: TenantId, draft: TaskDraft = {}): Promise<Task> =>
  database.write(tenant, (tx) => addTaskIn(tx, tenant, draft))

export async function addTasks(database: Database, tenant: TenantId, drafts: readonly TaskDraft[]): Promise<Task[]> {
  const added: Task[] = []
  for (const draft of drafts) added.push(await addTask(database, tenant, draft))
  return added
}
