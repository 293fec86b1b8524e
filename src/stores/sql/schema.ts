import type { Generated } from 'kysely'
import type { GovernanceSchema } from './governance-schema.ts'

/** The tables, as Kysely sees them. Times are milliseconds; JSON is text; hashes in `nodes` and `peaks` are raw bytes. */
export type Schema = GovernanceSchema & {
  log_heads: LogHeadTable
  log_entries: LogEntryTable
  trail_entries: TrailEntryTable
  api_keys: ApiKeyTable
  projects: ProjectTable
  tasks: TaskTable
  task_labels: TaskLabelTable
  task_dependencies: TaskDependencyTable
  thoughts: ThoughtTable
  audit_sessions: AuditSessionTable
  log_identity: LogIdentityTable
  log_anchors: LogAnchorTable
  clock_floor: ClockFloorTable
  workspaces: WorkspaceTable
  workspace_snapshots: WorkspaceSnapshotTable
  teams: TeamTable
  team_members: TeamMemberTable
  team_messages: TeamMessageTable
  team_tasks: TeamTaskTable
  runs: RunTable
  run_journal: RunJournalTable
  seal_sessions: SealSessionTable
  seal_messages: SealMessageTable
  agents: AgentTable
  agent_versions: AgentVersionTable
  agent_events: AgentEventTable
  workflows: WorkflowTable
  schedules: ScheduleTable
}

/** One row per tenant. Every writer of a tenant locks it, so that numbers and log positions have no gaps. */
type LogHeadTable = {
  tenant: string
  size: number
  peaks: Uint8Array
  task_count: number
  thought_count: number
  session_count: number
  /** Only in SQLite: the tenant's part of the ids of its log entries. */
  tenant_number: Generated<number>
  /** Only in SQLite: entries before this position are in `trail_entries`. */
  trail_to: Generated<number>
}

type LogEntryTable = {
  /** Only in SQLite; see `row-ids.ts`. */
  row_id: Generated<number>
  tenant: string
  seq: number
  at: number
  record: string
  nodes: Uint8Array
  /** The task that a trail record belongs to, and the hash that audit sessions use for it. */
  task_number: number | null
  record_hash: string | null
}

/** Only in SQLite; see `trail-index.ts`. */
type TrailEntryTable = { tenant: string; task_number: number; seq: number }

export type ApiKeyTable = {
  tenant: string
  id: string
  prefix: string
  hash: string
  name: string
  role: string
  tier: string
  scopes: string | null
  created_at: number
  created_by: string
  expires_at: number | null
  last_used_at: number | null
  revoked_at: number | null
  user_id: string | null
}

export type ProjectTable = {
  tenant: string
  slug: string
  task_count: number
  created_at: number
  created_by: string
}

export type TaskTable = {
  /** Joins the full-text index; never leaves the store. */
  row_id: Generated<number>
  tenant: string
  number: number
  project: string
  sequence: number
  title: string
  description: string
  status: string
  /** Sorts by meaning: low 0, normal 1, high 2, critical 3. */
  priority_rank: number
  progress: number
  assignee: string
  labels: string
  estimate_hours: number | null
  blocked_reason: string | null
  parent_number: number | null
  created_at: number
  created_by: string
  updated_at: number
  updated_by: string
}

/** In SQLite only tasks up to a mark have rows here; see `task-index.ts`. */
type TaskLabelTable = { tenant: string; task_number: number; label: string }
type TaskDependencyTable = { tenant: string; task_number: number; depends_on_number: number }

export type ThoughtTable = {
  /** Only in SQLite; see `row-ids.ts`. */
  row_id: Generated<number>
  tenant: string
  number: number
  task_number: number
  chain_position: number
  log_seq: number
  type: string
  content: string
  branch: string | null
  commit_sha: string | null
  tests_run: string | null
  blockers: string | null
  metadata: string | null
  hash: string
  previous_hash: string | null
  recorded_at: number
  recorded_by: string
}

/** The log of this store: one row, written once. The private key is never here. */
type LogIdentityTable = { only_row: number; log_id: string; verifier_key: string }

/** Records that a checkpoint of a tenant was stored beside the store at a node, and the length of the log then. */
type LogAnchorTable = { node: string; tenant: string; size: number }

/** The latest recorded time, in one row. */
type ClockFloorTable = { only_row: number; at: number }

export type AuditSessionTable = {
  tenant: string
  number: number
  task_number: number
  auditor_id: string
  reason: string | null
  scope: string
  started_at: number
  started_by: string
  /** The log position from which records count. */
  start_seq: number
  /** The position before which they count; null while the session is open. */
  end_seq: number | null
  finalized_at: number | null
  only_task_number: number | null
  merkle_root: string | null
  tree_depth: number | null
  leaf_count: number | null
}

export type WorkspaceTable = {
  tenant: string
  id: string
  name: string
  owner: string
  state: string
  wanted: string
  image: string
  vcpus: number
  memory_mb: number
  disk_gb: number
  ip: string
  network: string
  forwards: string
  env: string
  layers: string
  mounts: string
  forked_from: string | null
  current_snapshot_id: string | null
  node: string
  operation: string | null
  team: string | null
  bound_to: string | null
  created_at: number
  created_by: string
}

export type WorkspaceSnapshotTable = {
  tenant: string
  id: string
  workspace_id: string
  sequence: number
  name: string
  layer_id: string
  layers: string
  parent_id: string | null
  bytes: number
  has_memory: number
  state: string
  created_at: number
  created_by: string
}

export type TeamTable = {
  tenant: string
  name: string
  owner: string
  state: string
  max_vms: number
  parent: string | null
  depth: number
  node: string
  operation: string | null
  last_seq: number
  created_at: number
  created_by: string
}

export type TeamMemberTable = {
  tenant: string
  team: string
  name: string
  position: number
  role: string
  skills: string
  description: string
  workspace_id: string | null
}

export type TeamMessageTable = {
  tenant: string
  team: string
  recipient: string
  seq: number
  id: string
  sender: string
  addressed_to: string
  content: string
  type: string
  at: number
}

export type TeamTaskTable = {
  tenant: string
  team: string
  agent: string
  message_id: string
  seq: number
  assignment: string
  state: string
  job_id: number | null
  result: string | null
  at: number
}

export type RunTable = {
  tenant: string
  id: string
  kind: string
  subject_id: string
  subject_name: string
  subject_version: string
  owner: string
  principal: string
  parent_id: string | null
  root_id: string
  depth: number
  input: string
  status: string
  output: string
  error: string | null
  iteration: number
  state: string | null
  started_at: number
  changed_at: number
  ended_at: number | null
  wake_at: number | null
  waiting_for: string | null
  node: string
  claim: string | null
  cancel_requested: number
  last_sequence: number
  /** `last_sequence` of a run that has ended. */
  ended_sequence: number | null
}

export type AgentEventTable = {
  tenant: string
  agent_id: string
  sequence: number
  type: string
  payload: string
  at: number
}

export type RunJournalTable = {
  tenant: string
  run_id: string
  sequence: number
  type: string
  key: string | null
  payload: string
  state: string | null
  iteration: number | null
  at: number
}
export type SealSessionTable = {
  tenant: string
  id: string
  identity: string
  token_hash: string
  public_key: string
  context: string
  agent_id: string | null
  execution_id: string | null
  workload_id: string | null
  task_summary: string | null
  created_at: number
  created_by: string
  expires_at: number
  revoked_at: number | null
}

/** Accepted signed calls, by the digest of what was signed. */
export type SealMessageTable = { tenant: string; digest: string; kept_until: number }

/** `latest_version`, `description` and `labels` are those of the highest version. */
export type AgentTable = {
  tenant: string
  id: string
  name: string
  status: string
  latest_version: string
  description: string
  labels: string
  created_at: number
  created_by: string
  updated_at: number
}

export type AgentVersionTable = {
  tenant: string
  agent_id: string
  version: string
  manifest_yaml: string
  created_at: number
  created_by: string
}

/** One row for each version of a workflow. */
export type WorkflowTable = {
  tenant: string
  id: string
  version: string
  scope: string
  owner: string
  name: string
  description: string
  labels: string
  initial_state: string
  manifest: string
  created_at: number
  created_by: string
  changed_at: number
}

export type ScheduleTable = {
  tenant: string
  kind: string
  subject_id: string
  timing: string
  principal: string
  owner: string
  due_at: number
  next_at: number
  last_run_id: string | null
  missed: number
  skipped: number
}
