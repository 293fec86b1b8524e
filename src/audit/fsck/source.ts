import type { RuleTable } from './rule-check.ts'

/**
 * What the checker reads. A store adapter maps its tables to these rows, with the public field names of the tools. One source
 * must come from one snapshot: rows that change while they are read cause false findings. `null` and an absent field mean the
 * same. `logRows` and `thoughts` are read at the same time.
 */
export type FsckSource = Readonly<{
  /** Every tenant that has a row in any table, not only those with a log. */
  tenants(): AsyncIterable<string>
  head(tenant: string): Promise<FsckHead | undefined>
  /** The signed note that was stored last, if any. */
  checkpoint(tenant: string): Promise<string | undefined>
  /** The size of the log when a checkpoint was first stored beside this store; undefined if there never was one. */
  anchor(tenant: string): Promise<number | undefined>
  /** Whether the store records a first checkpoint at all, beside this machine or another one. */
  isAnchored(tenant: string): Promise<boolean>
  /** The log that the store says it has. */
  identity(): Promise<FsckIdentity | undefined>
  /** In order of `seq`. */
  logRows(tenant: string): AsyncIterable<FsckLogRow>
  projects(tenant: string): AsyncIterable<FsckProjectRow>
  tasks(tenant: string): AsyncIterable<FsckTaskRow>
  /** In order of the number in `thought_id`. */
  thoughts(tenant: string): AsyncIterable<FsckThoughtRow>
  sessions(tenant: string): AsyncIterable<FsckSessionRow>
  /** With the names of the fields that the effects have. */
  rules(table: RuleTable, tenant: string): AsyncIterable<Readonly<Record<string, unknown>>>
  runs(tenant: string): AsyncIterable<FsckRunRow>
  /** In order of run and sequence. */
  runEvents(tenant: string): AsyncIterable<FsckRunEventRow>
}>

export type FsckTable =
  | 'log_identity'
  | 'log_heads'
  | 'log_entries'
  | 'checkpoints'
  | 'projects'
  | 'tasks'
  | 'thoughts'
  | 'sessions'
  | 'runs'
  | 'run_journal'
  | RuleTable

export type FsckIdentity = Readonly<{ logId: string; verifierKey: string }>

export type FsckHead = Readonly<{
  size: number
  peaks: Uint8Array
  /** How many of each were ever created, if the store counts them. */
  counters?: Readonly<Partial<Record<'projects' | 'tasks' | 'thoughts' | 'sessions', number>>>
  /** SQLite's index of trail records: the entry before which it is complete, how many it has, and the last. */
  trail?: Readonly<{ to: number; entries: number; last: number | null }>
}>

export type FsckLogRow = Readonly<{
  seq: number
  atMs: number
  record: string
  nodes: Uint8Array
  /** Subject and hash of the first effect that has a subject; null when none has. */
  subject: string | null
  recordHash: string | null
}>

export type FsckProjectRow = Readonly<{
  project: string
  created_at: string
  created_by: string
  /** How many tasks were created in it. */
  task_count: number
}>

export type FsckTaskRow = Readonly<{
  task_id: string
  title: string
  description: string | null
  project: string
  parent_id: string | null
  status: string
  priority: string
  progress: number
  assignee: string | null
  labels: readonly string[]
  estimate_hours: number | null
  blocked_reason: string | null
  depends_on: readonly string[]
  created_at: string
  created_by: string
  sequence: number
  /** The values of the creation until the first update. */
  updated_at: string
  updated_by: string
}>

export type FsckThoughtRow = Readonly<{
  thought_id: string
  task_id: string
  type: string
  content: string
  branch?: string | null
  commit_sha?: string | null
  tests_run?: unknown
  blockers?: unknown
  metadata?: unknown
  previous_hash: string | null
  recorded_at: string
  recorded_by: string
  chain_position: number
  hash: string
  /** The entry that carries the thought. */
  log_seq: number
}>

export type FsckSessionRow = Readonly<{
  session_id: string
  task_id: string | null
  auditor_id: string
  reason: string | null
  scope: string | null
  started_at: string
  started_by: string
  start_seq: number
  /** This and the following fields are null until the session is finalized. */
  merkle_root: string | null
  tree_depth: number | null
  leaf_count: number | null
  finalized_at: string | null
  end_seq: number | null
  /** The only task that the frozen tree covers, when one was named. */
  finalized_task_id: string | null
}>

export type FsckRunRow = Readonly<{ run_id: string; status: string; last_sequence: number }>

/** A row of the journal of a run; `payload` is the stored text. */
export type FsckRunEventRow = Readonly<{
  run_id: string
  sequence: number
  type: string
  key: string | null
  payload: string
  state: string | null
  iteration: number | null
  at_ms: number
}>
