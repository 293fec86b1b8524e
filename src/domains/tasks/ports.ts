import type { TenantId } from '../../contract/principal.ts'
import type { ReadUnit, WriteUnit } from '../../contract/unit.ts'
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

export type NextAction = Pick<Task, 'number' | 'title' | 'priority' | 'assignee' | 'estimateHours' | 'parentNumber'> &
  Readonly<{ dependenciesUnmet: number }>

export type Project = Readonly<{ slug: string; taskCount: number; createdAtMs: number; createdBy: string }>

/** Every method answers for one tenant only; a foreign row is as absent as one that never was. */
export type TaskStore = Readonly<{
  /**
   * Takes the next number of the tenant. A write unit excludes every other writer of the tenant and a failed
   * transaction gives the number back, so numbers have no gaps.
   */
  takeTaskNumber(unit: WriteUnit, tenant: TenantId): number
  /** Counts one more task in the project and answers its place there; undefined when the project does not exist. */
  takeProjectSequence(unit: WriteUnit, tenant: TenantId, slug: string): Promise<number | undefined>
  insertTask(unit: WriteUnit, tenant: TenantId, task: Task): Promise<void>
  /** Replaces the row's mutable fields. `before` is what the row held: the full-text index needs it. */
  updateTask(unit: WriteUnit, tenant: TenantId, before: Task, after: Task): Promise<void>
  findTask(unit: ReadUnit, tenant: TenantId, number: number): Promise<Task | undefined>
  /** For those who only need to know. */
  hasTask(unit: ReadUnit, tenant: TenantId, number: number): Promise<boolean>
  listTasks(unit: ReadUnit, tenant: TenantId, filter: TaskFilter, page: TaskPage): Promise<TaskSummary[]>
  countTasks(unit: ReadUnit, tenant: TenantId, filter: TaskFilter): Promise<number>
  childNumbers(unit: ReadUnit, tenant: TenantId, number: number): Promise<number[]>
  /** Tasks in `todo`, ready ones first, then by priority, then the oldest. */
  listNextActions(unit: ReadUnit, tenant: TenantId, project: string, limit: number): Promise<NextAction[]>
  listBlocked(unit: ReadUnit, tenant: TenantId, project: string, limit: number): Promise<Task[]>
  /** The project whose task changed last; undefined when there is no task. */
  latestProject(unit: ReadUnit, tenant: TenantId): Promise<string | undefined>

  dependencyNumbers(unit: ReadUnit, tenant: TenantId, number: number): Promise<number[]>
  replaceDependencies(unit: WriteUnit, tenant: TenantId, number: number, dependsOn: readonly number[]): Promise<void>
  countUnmetDependencies(unit: ReadUnit, tenant: TenantId, number: number): Promise<number>

  insertProject(unit: WriteUnit, tenant: TenantId, project: Project): Promise<void>
  findProject(unit: ReadUnit, tenant: TenantId, slug: string): Promise<Project | undefined>
  listProjects(unit: ReadUnit, tenant: TenantId, page: { limit: number; offset: number }): Promise<Project[]>
  countProjects(unit: ReadUnit, tenant: TenantId): Promise<number>
}>
