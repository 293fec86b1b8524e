import type { TenantId } from '../../contract/principal.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'
import type { TaskPriority, TaskStatus } from './rules.ts'

export type Task = Readonly<{
  number: number
  title: string
  description: string
  project: string
  sequence: number
  status: TaskStatus
  priority: TaskPriority
  progress: number
  assignee: string
  labels: readonly string[]
  estimateHours: number | null
  blockedReason: string | null
  parentNumber: number | null
  createdAtMs: number
  createdBy: string
  updatedAtMs: number
  updatedBy: string
}>

export type TaskSummary = Pick<
  Task,
  'number' | 'title' | 'project' | 'status' | 'priority' | 'progress' | 'assignee' | 'createdAtMs' | 'updatedAtMs'
>

export type TaskFilter = Readonly<{
  project?: string
  status?: readonly TaskStatus[]
  priority?: readonly TaskPriority[]
  assignee?: string
  label?: string
  createdAfterMs?: number
  createdBeforeMs?: number
  /** Words that must all occur in title or description, in any grammatical form. */
  words?: readonly string[]
}>

export type TaskPage = Readonly<{
  limit: number
  offset: number
  sortBy: 'created' | 'updated' | 'priority' | 'progress'
  sortOrder: 'asc' | 'desc'
}>

type NextAction = Pick<Task, 'number' | 'title' | 'priority' | 'assignee' | 'estimateHours' | 'parentNumber'> &
  Readonly<{ dependenciesUnmet: number }>

export type Project = Readonly<{ slug: string; taskCount: number; createdAtMs: number; createdBy: string }>

/** Every method answers for one tenant only; a row of another tenant does not exist. */
export type TaskStore = Readonly<{
  /**
   * Takes the next number of the tenant. A write transaction excludes every other writer of the tenant, and a failed transaction
   * returns the number, so numbers have no gaps.
   */
  takeTaskNumber(tx: WriteTx, tenant: TenantId): number
  /** Counts one more task in the project and returns its position there; undefined if the project does not exist. */
  takeProjectSequence(tx: WriteTx, tenant: TenantId, slug: string): Promise<number | undefined>
  insertTask(tx: WriteTx, tenant: TenantId, task: Task): Promise<void>
  /** Replaces the row's mutable fields. `before` is what the row held: the full-text index needs it. */
  updateTask(tx: WriteTx, tenant: TenantId, before: Task, after: Task): Promise<void>
  findTask(tx: ReadTx, tenant: TenantId, number: number): Promise<Task | undefined>
  /** For callers that need no more than its existence. */
  hasTask(tx: ReadTx, tenant: TenantId, number: number): Promise<boolean>
  listTasks(tx: ReadTx, tenant: TenantId, filter: TaskFilter, page: TaskPage): Promise<TaskSummary[]>
  countTasks(tx: ReadTx, tenant: TenantId, filter: TaskFilter): Promise<number>
  childNumbers(tx: ReadTx, tenant: TenantId, number: number): Promise<number[]>
  /** Tasks in `todo`, ready ones first, then by priority, then the oldest. */
  listNextActions(tx: ReadTx, tenant: TenantId, project: string, limit: number): Promise<NextAction[]>
  listBlocked(tx: ReadTx, tenant: TenantId, project: string, limit: number): Promise<Task[]>
  /** The project with the latest change of a task; undefined if there is no task. */
  latestProject(tx: ReadTx, tenant: TenantId): Promise<string | undefined>

  dependencyNumbers(tx: ReadTx, tenant: TenantId, number: number): Promise<number[]>
  replaceDependencies(tx: WriteTx, tenant: TenantId, number: number, dependsOn: readonly number[]): Promise<void>
  countUnmetDependencies(tx: ReadTx, tenant: TenantId, number: number): Promise<number>

  insertProject(tx: WriteTx, tenant: TenantId, project: Project): Promise<void>
  findProject(tx: ReadTx, tenant: TenantId, slug: string): Promise<Project | undefined>
  listProjects(tx: ReadTx, tenant: TenantId, page: { limit: number; offset: number }): Promise<Project[]>
  countProjects(tx: ReadTx, tenant: TenantId): Promise<number>
}>
