import { AppError } from '../../contract/app-error.ts'
import type { TenantId } from '../../contract/principal.ts'
import type { ReadTx } from '../../contract/tx.ts'
import type { Task, TaskStore } from './ports.ts'
import { parseNumberedId } from './rules.ts'

/** The caller's task with a public id. Unknown, malformed and foreign ids give the same error. */
export async function requireTask(
  store: Pick<TaskStore, 'findTask'>,
  tx: ReadTx,
  tenant: TenantId,
  taskId: string,
  field: string,
): Promise<Task> {
  const number = parseNumberedId('T', taskId)
  const task = number === undefined ? undefined : await store.findTask(tx, tenant, number)
  if (task === undefined) throw taskNotFound(taskId, field)
  return task
}

/** Like `requireTask`, for callers that need only the number. */
export async function requireTaskNumber(
  store: Pick<TaskStore, 'hasTask'>,
  tx: ReadTx,
  tenant: TenantId,
  taskId: string,
  field: string,
): Promise<number> {
  const number = parseNumberedId('T', taskId)
  if (number === undefined || !(await store.hasTask(tx, tenant, number))) throw taskNotFound(taskId, field)
  return number
}

const taskNotFound = (taskId: string, field: string): AppError =>
  new AppError('ERR_TASK_NOT_FOUND', `Task '${taskId}' does not exist. Use task_list to find the id.`, { field })

export const projectNotFound = (slug: string) =>
  new AppError('ERR_PROJECT_NOT_FOUND', `Project '${slug}' does not exist. Create it with project_create.`, {
    field: 'project',
  })
