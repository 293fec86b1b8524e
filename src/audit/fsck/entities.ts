import { canonicalJson } from '../../kernel/canonical-json.ts'

/** What the log creates, as data: the key of each entity, its fields, and how effects change it. */
export type EntityName = 'projects' | 'tasks' | 'thoughts' | 'sessions'

export type Members = Readonly<Record<string, unknown>>
export type Row = Record<string, unknown>

type EntitySpec = Readonly<{
  key: string
  /** Ids are this letter and a number; absent where the key is a free name. */
  idLetter?: string
}>

export const entities: Readonly<Record<EntityName, EntitySpec>> = {
  projects: { key: 'project' },
  tasks: { key: 'task_id', idLetter: 'T' },
  thoughts: { key: 'thought_id', idLetter: 'Θ' },
  sessions: { key: 'session_id', idLetter: 'A' },
}

export type EffectSpec = Readonly<{
  entity: EntityName
  action: 'create' | 'update'
  required: readonly string[]
  optional?: readonly string[]
  /** Fields of the body that describe the change and are not stored in the row. */
  unretained?: readonly string[]
  /** Fields of the body that the row stores under another name. */
  renamed?: Readonly<Record<string, string>>
  /** A member of the body that contains the changed fields, and the allowed fields. */
  changes?: Readonly<{ member: string; allowed: readonly string[] }>
  /** Fields that the row has from the start and the body does not name. */
  initial?: (body: Members, seq: number) => Members
  /** Members that contain keys of other entities; null and absent refer to nothing. */
  references?: Readonly<Record<string, 'projects' | 'tasks'>>
  /** The effect is a trail record of the task in `task_id`. */
  isTrail?: boolean
}>

const taskReferences = { parent_id: 'tasks', depends_on: 'tasks', project: 'projects' } as const

export const effectSpecs: Readonly<Record<string, EffectSpec>> = {
  project_created: {
    entity: 'projects',
    action: 'create',
    required: ['project', 'created_at', 'created_by'],
    initial: () => ({ task_count: 0 }),
  },
  task_created: {
    entity: 'tasks',
    action: 'create',
    required: ['task_id', 'title', 'project', 'status', 'priority', 'progress', 'created_at', 'created_by', 'sequence'],
    optional: ['description', 'parent_id', 'assignee', 'labels', 'estimate_hours', 'blocked_reason', 'depends_on'],
    initial: (body) => ({ updated_at: body['created_at'], updated_by: body['created_by'] }),
    references: taskReferences,
    isTrail: true,
  },
  task_updated: {
    entity: 'tasks',
    action: 'update',
    required: ['task_id', 'changes', 'previous_status', 'updated_at', 'updated_by'],
    unretained: ['changes', 'previous_status'],
    changes: {
      member: 'changes',
      allowed: ['status', 'progress', 'description', 'priority', 'assignee', 'labels', 'blocked_reason', 'depends_on'],
    },
    references: taskReferences,
    isTrail: true,
  },
  thought_recorded: {
    entity: 'thoughts',
    action: 'create',
    required: [
      'thought_id',
      'task_id',
      'type',
      'content',
      'previous_hash',
      'recorded_at',
      'recorded_by',
      'chain_position',
      'hash',
    ],
    optional: ['branch', 'commit_sha', 'tests_run', 'blockers', 'metadata'],
    initial: (_body, seq) => ({ log_seq: seq }),
    references: { task_id: 'tasks' },
    isTrail: true,
  },
  session_started: {
    entity: 'sessions',
    action: 'create',
    required: ['session_id', 'task_id', 'auditor_id', 'scope', 'started_at', 'started_by', 'start_seq'],
    optional: ['reason'],
    references: { task_id: 'tasks' },
  },
  session_finalized: {
    entity: 'sessions',
    action: 'update',
    required: ['session_id', 'merkle_root', 'tree_depth', 'leaf_count', 'finalized_at', 'end_seq'],
    optional: ['task_id'],
    renamed: { task_id: 'finalized_task_id' },
  },
}

/** The number in an id such as `T-0042`; undefined if the id has another form. */
export function idNumber(letter: string, id: unknown): number | undefined {
  if (typeof id !== 'string' || !id.startsWith(`${letter}-`)) return undefined
  const digits = id.slice(letter.length + 1)
  if (!/^\d{4,15}$/.test(digits)) return undefined
  const number = Number(digits)
  return number > 0 && String(number).padStart(4, '0') === digits ? number : undefined
}

export const idOf = (letter: string, number: number): string => `${letter}-${String(number).padStart(4, '0')}`

export const isMembers = (value: unknown): value is Members =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Undefined for a value without canonical form, such as a lone surrogate. */
export function canonicalText(value: unknown): string | undefined {
  try {
    return canonicalJson(value)
  } catch {
    return undefined
  }
}
