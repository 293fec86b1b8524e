import { AppError } from '../../contract/app-error.ts'
import type { TenantId } from '../../contract/principal.ts'
import type { ReadTx } from '../../contract/tx.ts'
import { canonicalJson, type Json } from '../../kernel/canonical-json.ts'
import { isoTime } from '../../kernel/clock.ts'
import { sha256Hex } from '../../kernel/hash.ts'
import type { Task, TaskStore } from '../tasks/ports.ts'
import { formatTaskId } from '../tasks/rules.ts'
import { MISSING, UNKNOWN } from './chain-report.ts'

export type TaskRows = ReturnType<typeof createTaskRows>
type Body = Readonly<Record<string, Json>>
type TaskRowProblem = Readonly<{ expectedHash: string; actualHash: string }>

/**
 * Rebuilds the rows of tasks from the whole log and compares them with the stored rows. A row results from all records of its
 * task, whichever of them the scope covers.
 */
export function createTaskRows(deps: {
  tasks: Pick<TaskStore, 'findTask' | 'dependencyNumbers'>
  tx: ReadTx
  tenant: TenantId
}) {
  const { tasks, tx, tenant } = deps
  const expected = new Map<number, Record<string, Json>>()

  /** A row that cannot be read, or that has no canonical text, was not written by this program. */
  async function hashOfStored(number: number): Promise<string> {
    try {
      const row = await tasks.findTask(tx, tenant, number)
      return row === undefined ? MISSING : hashOf(bodyOf(row, await tasks.dependencyNumbers(tx, tenant, number)))
    } catch (error) {
      if (error instanceof AppError) throw error
      return UNKNOWN
    }
  }

  return {
    /** Applies a record of a task, in log order. */
    apply(kind: string, task: number, body: Body): void {
      if (kind === 'task_created') {
        expected.set(task, { ...body, updated_at: body['created_at']!, updated_by: body['created_by']! })
      } else if (kind === 'task_updated') {
        const row = expected.get(task)
        const { changes, updated_at, updated_by } = body as { changes: Body; updated_at: string; updated_by: string }
        if (row !== undefined) Object.assign(row, changes, { updated_at, updated_by })
      }
    },
    /** Those of the given tasks whose stored rows differ. */
    async problems(numbers: Iterable<number>): Promise<TaskRowProblem[]> {
      const found: TaskRowProblem[] = []
      for (const number of numbers) {
        const actual = await hashOfStored(number)
        const expectedRow = expected.get(number)
        const expectedHash = expectedRow === undefined ? MISSING : hashOf(expectedRow)
        if (expectedHash !== actual) found.push({ expectedHash: expectedHash, actualHash: actual })
      }
      return found
    },
  }
}

const hashOf = (row: Readonly<Record<string, Json>>): string => sha256Hex(canonicalJson(row))

const bodyOf = (task: Task, dependsOn: readonly number[]): Record<string, Json> => ({
  assignee: task.assignee,
  blocked_reason: task.blockedReason,
  created_at: isoTime(task.createdAtMs),
  created_by: task.createdBy,
  depends_on: dependsOn.map(formatTaskId),
  description: task.description,
  estimate_hours: task.estimateHours,
  labels: task.labels as Json,
  parent_id: task.parentNumber === null ? null : formatTaskId(task.parentNumber),
  priority: task.priority ?? null,
  progress: task.progress,
  project: task.project,
  sequence: task.sequence,
  status: task.status,
  task_id: formatTaskId(task.number),
  title: task.title,
  updated_at: isoTime(task.updatedAtMs),
  updated_by: task.updatedBy,
})
